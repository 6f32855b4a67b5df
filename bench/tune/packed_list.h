/* Shapes of the packed product to try: number, pair, rows, columns, terms per panel, a thread's rows and columns, threads,
 * stages, blocks per multiprocessor. */
#define PACKED_LIST(X)                                       \
    X(0, sum_product_f32, 128, 128, 16, 8, 8, 256, 4, 2)     \
    X(1, sum_product_f32, 128, 256, 16, 8, 16, 256, 4, 1)    \
    X(2, sum_product_f32, 256, 128, 16, 16, 8, 256, 4, 1)    \
    X(3, sum_product_f32, 128, 128, 8, 8, 8, 256, 6, 2)      \
    X(4, sum_product_f32, 128, 128, 32, 8, 8, 256, 3, 2)     \
    X(5, sum_product_f32, 128, 128, 16, 8, 16, 128, 4, 2)    \
    X(6, sum_product_f32, 64, 128, 16, 8, 8, 128, 4, 4)      \
    X(10, sum_product_c64, 128, 128, 8, 8, 8, 256, 4, 1)     \
    X(11, sum_product_c64, 64, 128, 8, 4, 8, 256, 4, 2)      \
    X(12, sum_product_c64, 128, 64, 8, 8, 8, 128, 4, 2)      \
    X(13, sum_product_c64, 64, 64, 16, 4, 8, 128, 4, 4)      \
    X(20, max_plus_f64, 128, 128, 16, 8, 8, 256, 4, 1)       \
    X(21, max_plus_f64, 128, 64, 16, 8, 8, 128, 4, 2)        \
    X(22, max_plus_f64, 64, 128, 16, 4, 8, 256, 4, 2)        \
    X(23, max_plus_f64, 64, 64, 16, 4, 8, 128, 4, 4)         \
    X(24, max_plus_f64, 128, 128, 8, 8, 8, 256, 4, 1)        \
    X(30, sum_product_f64, 128, 128, 16, 8, 8, 256, 4, 1)    \
    X(31, sum_product_f64, 128, 64, 16, 8, 8, 128, 4, 2)     \
    X(32, sum_product_f64, 64, 128, 16, 4, 8, 256, 4, 2)     \
    X(33, sum_product_f64, 64, 64, 16, 4, 8, 128, 4, 4)      \
    X(40, or_and_bool, 128, 128, 16, 8, 8, 256, 4, 2)        \
    X(41, or_and_bool, 128, 128, 8, 8, 8, 256, 4, 2)         \
    X(42, or_and_bool, 128, 256, 16, 8, 16, 256, 4, 1)       \
    X(50, log_sum_exp_f32, 128, 128, 16, 8, 8, 256, 4, 2)    \
    X(51, log_sum_exp_f32, 128, 128, 32, 8, 8, 256, 3, 2)    \
    X(60, sum_product_f16, 128, 256, 32, 8, 16, 256, 4, 1)   \
    X(61, sum_product_f16, 128, 128, 32, 8, 16, 128, 3, 2)   \
    X(62, sum_product_f16, 128, 128, 32, 4, 16, 256, 3, 2)   \
    X(63, sum_product_f16, 256, 128, 32, 8, 16, 256, 4, 1)   \
    X(64, sum_product_f16, 128, 128, 16, 8, 16, 128, 4, 2)   \
    X(70, max_plus_f32, 128, 256, 16, 8, 16, 256, 4, 1)      \
    X(71, max_plus_f32, 128, 128, 16, 8, 8, 256, 4, 2)       \
    X(72, max_plus_f32, 128, 256, 32, 8, 16, 256, 4, 1)      \
    X(73, max_plus_f32, 128, 128, 32, 8, 8, 256, 3, 2)       \
    X(74, max_plus_f32, 128, 128, 16, 8, 16, 128, 4, 2)      \
    X(75, max_plus_f32, 256, 128, 16, 8, 16, 256, 4, 1)      \
    X(80, max_plus_i32, 128, 256, 16, 8, 16, 256, 4, 1)      \
    X(83, max_plus_i32, 128, 256, 32, 8, 16, 256, 4, 1)      \
    X(81, max_plus_i32, 128, 128, 16, 8, 8, 256, 4, 2)       \
    X(82, max_plus_i32, 128, 128, 32, 8, 8, 256, 3, 2)       \
    X(90, max_plus_i16, 128, 256, 32, 8, 16, 256, 3, 2)      \
    X(91, max_plus_i16, 128, 256, 16, 8, 16, 256, 4, 2)      \
    X(93, max_plus_i16, 128, 256, 32, 16, 16, 128, 3, 2)     \
    X(100, max_plus_f16, 128, 256, 32, 8, 16, 256, 3, 2)     \
    X(101, max_plus_f16, 128, 256, 16, 8, 16, 256, 4, 2)     \
    X(103, max_plus_f16, 128, 256, 32, 16, 16, 128, 3, 2)
/* name, bytes of an element */
#define PACKED_PAIRS(X)   \
    X(sum_product_f32, 4) \
    X(sum_product_f64, 8) \
    X(sum_product_c64, 8) \
    X(max_plus_f64, 8)    \
    X(or_and_bool, 1)     \
    X(sum_product_f16, 2) \
    X(log_sum_exp_f32, 4) \
    X(max_plus_f32, 4)    \
    X(max_plus_i32, 4)    \
    X(max_plus_i16, 2)    \
    X(max_plus_f16, 2)
