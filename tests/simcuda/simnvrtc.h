/* Control of the stand-in for libnvrtc: point TENSUM_NVRTC_LIBRARY at it. It looks at what it is given (every header
 * that a source includes must be there) and answers with an image that the simulated driver takes.
 *
 * Environment: SIMNVRTC_VERSION ("13.0"), SIMNVRTC_ARCHITECTURES ("75 80 90 100"). */
#ifndef TS_SIMCUDA_SIMNVRTC_H
#define TS_SIMCUDA_SIMNVRTC_H

#ifdef __cplusplus
extern "C" {
#endif

/* The n-th call (1-based, from now) of any function fails with `result`; 0 turns it off. */
void simnvrtc_fail(long n, int result);
/* Calls since simnvrtc_fail was last called, and the name of the one that failed, or NULL. */
long simnvrtc_calls(void);
const char *simnvrtc_failed(void);

#ifdef __cplusplus
}
#endif
#endif
