/* Tile shapes to try: number, rows, columns, terms per panel, a thread's rows and columns, threads, panels in flight,
 * how winners are tracked, blocks per multiprocessor. */
#define TUNE_LIST(X)                             \
    X(0, 128, 128, 16, 8, 8, 256, 4, 0, 2)       \
    X(1, 128, 128, 32, 8, 8, 256, 3, 0, 2)       \
    X(2, 64, 128, 16, 8, 8, 128, 4, 0, 4)        \
    X(3, 128, 256, 16, 8, 16, 256, 4, 0, 1)      \
    X(4, 64, 64, 16, 8, 8, 64, 4, 0, 6)          \
    X(5, 32, 64, 16, 4, 4, 128, 4, 0, 5)         \
    X(6, 64, 64, 16, 4, 8, 128, 4, 0, 5)         \
    X(7, 32, 64, 32, 4, 8, 64, 3, 0, 8)          \
    X(8, 64, 32, 16, 8, 4, 64, 4, 0, 8)          \
    X(20, 128, 64, 16, 8, 4, 256, 4, 2, 2)       \
    X(21, 128, 64, 32, 8, 4, 256, 3, 2, 1)       \
    X(22, 64, 64, 16, 8, 4, 128, 4, 2, 3)
