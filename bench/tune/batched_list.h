/* Kernels of many small products to try: number, winners, whether the left and the right operand's terms are neighbours, blocks at
 * a time on a multiprocessor. */
#define BATCHED_LIST(X)         \
    X(0, false, true, false, 4) \
    X(1, true, true, false, 4)  \
    X(2, true, true, false, 3)  \
    X(3, true, false, false, 4) \
    X(4, true, true, true, 4)   \
    X(5, true, false, true, 4)
