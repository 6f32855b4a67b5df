/* The positional sum of cotangents (semantics, point 10): blocks of 512 in ascending order, then the block sums by
 * the same rule, each starting at +0. Shared by the backends that follow it on the host. */
#ifndef TS_BACKEND_REFERENCE_TREE_SUM_H
#define TS_BACKEND_REFERENCE_TREE_SUM_H

#include <stdbool.h>
#include <stdint.h>

enum { TS_TREE_BLOCK = 512, TS_TREE_LEVELS = 8 }; /* 512^7 > 2^62 */

typedef struct ts_tree_sum {
    double sums[TS_TREE_LEVELS];
    int32_t counts[TS_TREE_LEVELS];
    bool single; /* round every addition to f32 */
} ts_tree_sum;

static inline double ts_tree_add(const ts_tree_sum *tree, double x, double y)
{
    return tree->single ? (double)((float)x + (float)y) : x + y;
}

/* Feed the next position. */
static inline void ts_tree_feed(ts_tree_sum *tree, double x)
{
    int level = 0;
    tree->sums[0] = ts_tree_add(tree, tree->sums[0], x);
    while (++tree->counts[level] == TS_TREE_BLOCK && level + 1 < TS_TREE_LEVELS) {
        double full = tree->sums[level];
        tree->sums[level] = 0;
        tree->counts[level] = 0;
        level++;
        tree->sums[level] = ts_tree_add(tree, tree->sums[level], full);
    }
}

static inline double ts_tree_end(ts_tree_sum *tree)
{
    double carry = 0;
    for (int level = 0; level < TS_TREE_LEVELS; level++) {
        bool above = false;
        carry = level == 0 ? tree->sums[0] : ts_tree_add(tree, tree->sums[level], carry);
        for (int i = level + 1; i < TS_TREE_LEVELS; i++) {
            above = above || tree->counts[i] > 0;
        }
        if (!above) {
            break;
        }
    }
    return carry;
}

#endif
