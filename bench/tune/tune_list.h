/* Tile shapes to try: number, rows, columns, terms per panel, a thread's rows and columns, threads, panels in flight,
 * how winners are tracked, blocks per multiprocessor. */
#define TUNE_LIST(X)                             \
    X(0, 128, 128, 16, 8, 8, 256, 3, 0, 2)       \
    X(9, 64, 32, 32, 4, 4, 128, 2, 0, 6)         \
    X(11, 32, 64, 16, 4, 4, 128, 3, 0, 5)        \
    X(20, 128, 64, 32, 8, 4, 256, 2, 2, 2)       \
    X(21, 128, 64, 16, 8, 4, 256, 3, 2, 2)       \
    X(22, 128, 64, 32, 8, 4, 256, 2, 0, 2)
