/* Several elements in one access. */
#ifndef TS_CUDA_VECTOR_H
#define TS_CUDA_VECTOR_H

#include "target.h"

template <typename T, int N> struct alignas(sizeof(T) * N) ts_vector {
    T at[N];
};
template <typename T, int N> TS_DEVICE void ts_read_vector(const T *from, T *to)
{
    ts_vector<T, N> vector = *reinterpret_cast<const ts_vector<T, N> *>(from);
    for (int i = 0; i < N; i++) {
        to[i] = vector.at[i];
    }
}

#endif
