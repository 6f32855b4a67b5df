/* What kernels use of the standard headers, for NVRTC, which has none. The headers that the sources name ("core/core.h",
 * <stdint.h>, ...) stand for this file there; see CMakeLists.txt. */
#ifndef TS_CUDA_STANDARD_H
#define TS_CUDA_STANDARD_H

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
using intptr_t = long;
using uintptr_t = unsigned long;
static_assert(sizeof(int64_t) == 8 && sizeof(void *) == 8, "NVRTC runs on 64-bit hosts");

#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32767 - 1)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MIN (-9223372036854775807l - 1)
#define INT64_MAX 9223372036854775807l
#define UINT64_MAX 18446744073709551615ul
#define INT64_C(value) value##l
#define UINT64_C(value) value##ul
#define UINT32_C(value) value##u

#define __builtin_huge_valf() __int_as_float(0x7f800000)
#define __builtin_huge_val() __longlong_as_double(0x7ff0000000000000l)

/* Named by declarations in algebra.h that kernels do not use. */
typedef int tensum_semiring, tensum_dtype, tensum_status;

#endif
