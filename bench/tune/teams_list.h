/* Shapes of products by teams of warps to try: number, rows, columns, terms of a panel, threads, stages. */
#define TEAMS_LIST(X)            \
    X(0, 32, 64, 128, 512, 4)    \
    X(1, 32, 64, 128, 512, 3)    \
    X(2, 32, 64, 64, 512, 4)     \
    X(3, 32, 64, 128, 256, 4)    \
    X(4, 64, 64, 64, 512, 4)     \
    X(5, 64, 64, 64, 256, 4)     \
    X(6, 128, 64, 64, 512, 4)    \
    X(7, 128, 64, 64, 512, 3)    \
    X(8, 128, 64, 32, 512, 4)    \
    X(9, 128, 64, 64, 256, 4)    \
    X(10, 128, 128, 32, 512, 4)
