/* A picture of a plan: the contraction tree, every step a circle whose colour and size tell its cost. */
#include <stdlib.h>
#include <string.h>

#include "command.h"

enum { MARGIN = 40, HEADER = 120, PANEL = 360, TOP_STEPS = 12 };

typedef struct node {
    int64_t children[2]; /* ids, -1: none */
    int64_t parent;
    int32_t depth;
    double x, pairs, elements; /* pairs, elements: log2 */
    int64_t step;              /* -1: an input */
} node;

typedef struct drawing {
    node *nodes;
    int64_t count, leaves, steps, root;
    int32_t depth;
    double most_pairs, least_pairs, total_pairs; /* log2 */
} drawing;

static void add_log2(double *total, double term)
{
    double high = *total > term ? *total : term, low = *total > term ? term : *total;
    *total = isinf(low) ? high : high + log2(1 + exp2(low - high));
}

/* Steps come children first, so one pass backwards gives depths. */
static tensum_status build(const tensum_plan *plan, drawing *d)
{
    tensum_cost cost = TENSUM_COST_INIT;
    tensum_status status = tensum_plan_cost(plan, &cost);
    d->leaves = tensum_network_operand_count(tensum_plan_network(plan));
    d->steps = cost.steps;
    d->count = d->leaves;
    for (int64_t s = 0; s < d->steps && status == TENSUM_OK; s++) {
        tensum_step_info info = TENSUM_STEP_INFO_INIT;
        status = tensum_plan_step(plan, s, &info);
        if (status == TENSUM_OK && info.result >= d->count) {
            d->count = info.result + 1;
        }
    }
    d->nodes = allocate_or_exit((size_t)d->count, sizeof *d->nodes);
    for (int64_t i = 0; i < d->count; i++) {
        d->nodes[i] = (node){{-1, -1}, -1, 0, 0, -INFINITY, 0, -1};
    }
    d->most_pairs = d->total_pairs = -INFINITY;
    d->least_pairs = INFINITY;
    d->root = -1;
    for (int64_t s = 0; s < d->steps && status == TENSUM_OK; s++) {
        tensum_step_info info = TENSUM_STEP_INFO_INIT;
        status = tensum_plan_step(plan, s, &info);
        if (status != TENSUM_OK) {
            break;
        }
        node *n = &d->nodes[info.result];
        n->children[0] = info.a;
        n->children[1] = info.b;
        n->pairs = info.log2_pairs;
        n->elements = info.log2_elements;
        n->step = s;
        d->root = info.result;
        d->most_pairs = n->pairs > d->most_pairs ? n->pairs : d->most_pairs;
        d->least_pairs = n->pairs < d->least_pairs ? n->pairs : d->least_pairs;
        add_log2(&d->total_pairs, n->pairs);
        for (int c = 0; c < 2; c++) {
            if (n->children[c] >= 0) {
                d->nodes[n->children[c]].parent = info.result;
            }
        }
    }
    return status;
}

/* Leaves from left to right in the order of a walk, inner nodes above the middle of their children. */
static void place(drawing *d)
{
    int64_t *stack = allocate_or_exit((size_t)d->count + 1, sizeof *stack);
    uint8_t *visits = allocate_or_exit((size_t)d->count, 1);
    int64_t depth = 0;
    double next = 0;
    if (d->root >= 0) {
        stack[depth++] = d->root;
    }
    while (depth != 0) {
        int64_t id = stack[depth - 1];
        node *n = &d->nodes[id];
        if (visits[id] < 2 && n->children[visits[id]] >= 0) {
            int64_t child = n->children[visits[id]++];
            d->nodes[child].depth = n->depth + 1;
            d->depth = d->nodes[child].depth > d->depth ? d->nodes[child].depth : d->depth;
            stack[depth++] = child;
            continue;
        }
        if (n->children[0] < 0) {
            n->x = next++;
        } else if (n->children[1] < 0) {
            n->x = d->nodes[n->children[0]].x;
        } else {
            n->x = 0.5 * (d->nodes[n->children[0]].x + d->nodes[n->children[1]].x);
        }
        depth--;
    }
    free(stack);
    free(visits);
}

static void print_text(FILE *out, const char *text)
{
    for (const char *c = text; *c != 0; c++) {
        if (*c == '<' || *c == '>' || *c == '&' || (unsigned char)*c < 0x20) {
            fprintf(out, "&#%d;", (int)(unsigned char)*c < 0x20 ? ' ' : *c);
        } else {
            fputc(*c, out);
        }
    }
}

/* From pale yellow, cheap, to dark red, the most expensive. */
static void colour(double part, char text[8])
{
    static const int stops[4][3] = {{255, 247, 188}, {254, 196, 79}, {217, 72, 1}, {127, 0, 0}};
    double at = (part < 0 ? 0 : part > 1 ? 1 : part) * 3;
    int i = at >= 3 ? 2 : (int)at;
    double f = at - i;
    int rgb[3];
    for (int c = 0; c < 3; c++) {
        rgb[c] = (int)(stops[i][c] * (1 - f) + stops[i + 1][c] * f + 0.5);
    }
    snprintf(text, 8, "#%02x%02x%02x", (unsigned)rgb[0] & 255u, (unsigned)rgb[1] & 255u, (unsigned)rgb[2] & 255u);
}

static double heat(const drawing *d, double pairs)
{
    double range = d->most_pairs - d->least_pairs;
    return range > 0 ? (pairs - d->least_pairs) / range : 1;
}

/* "T12" for an input, "S3" for the result of a step. */
static void print_id(FILE *out, const drawing *d, int64_t id)
{
    if (d->nodes[id].step < 0) {
        fprintf(out, "T%lld", (long long)id);
    } else {
        fprintf(out, "S%lld", (long long)d->nodes[id].step);
    }
}

static void print_step(FILE *out, const drawing *d, const node *n)
{
    fprintf(out, "S%lld = ", (long long)n->step);
    print_id(out, d, n->children[0]);
    if (n->children[1] >= 0) {
        fprintf(out, " &#215; ");
        print_id(out, d, n->children[1]);
    }
}

static void draw_tree(FILE *out, const drawing *d, double dx, double dy)
{
    char fill[8];
    bool labelled = d->leaves <= 80;
    for (int64_t i = 0; i < d->count; i++) { /* tensors first, steps above them */
        const node *n = &d->nodes[i];
        if (n->parent >= 0) {
            const node *p = &d->nodes[n->parent];
            fprintf(out, "<path d='M%.1f %.1fV%.1fH%.1f' stroke='#8a8a8a' stroke-width='%.1f' fill='none'/>\n",
                    MARGIN + n->x * dx, HEADER + n->depth * dy, HEADER + p->depth * dy, MARGIN + p->x * dx,
                    n->step >= 0 ? 0.6 + 0.12 * (n->elements > 0 ? n->elements : 0) : 0.6);
        }
    }
    for (int64_t i = 0; i < d->count; i++) {
        const node *n = &d->nodes[i];
        double x = MARGIN + n->x * dx, y = HEADER + n->depth * dy;
        if (n->step < 0) {
            if (n->parent >= 0) {
                fprintf(out, "<rect x='%.1f' y='%.1f' width='4' height='4' fill='#4a6fa5'><title>input T%lld</title></rect>\n",
                        x - 2, y - 2, (long long)i);
            }
            if (labelled && n->parent >= 0) {
                fprintf(out, "<text x='%.1f' y='%.1f' font-size='9' text-anchor='middle' fill='#4a6fa5'>T%lld</text>\n", x,
                        y + 13, (long long)i);
            }
            continue;
        }
        double h = heat(d, n->pairs);
        colour(h, fill);
        fprintf(out, "<circle cx='%.1f' cy='%.1f' r='%.1f' fill='%s' stroke='#333' stroke-width='0.5'><title>", x, y,
                3 + 5 * h, fill);
        print_step(out, d, n);
        fprintf(out, ": 2^%.2f pairs, result of 2^%.2f elements</title></circle>\n", n->pairs, n->elements);
        if (labelled) {
            fprintf(out, "<text x='%.1f' y='%.1f' font-size='9'>2^%.1f</text>\n", x + 9, y + 3, n->pairs);
        }
    }
}

typedef struct ranked {
    double pairs;
    int64_t id;
} ranked;

static int by_pairs(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->pairs != y->pairs ? (x->pairs < y->pairs ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

static void draw_panel(FILE *out, const drawing *d, double left)
{
    ranked *steps = allocate_or_exit((size_t)d->steps, sizeof *steps);
    int64_t count = 0;
    char fill[8];
    for (int64_t i = 0; i < d->count; i++) {
        if (d->nodes[i].step >= 0) {
            steps[count++] = (ranked){d->nodes[i].pairs, i};
        }
    }
    qsort(steps, (size_t)count, sizeof *steps, by_pairs);
    fprintf(out, "<text x='%.0f' y='%d' font-size='13' font-weight='bold'>the most expensive steps</text>\n", left,
            HEADER - 6);
    for (int64_t i = 0; i < count && i < TOP_STEPS; i++) {
        const node *n = &d->nodes[steps[i].id];
        double share = exp2(n->pairs - d->total_pairs), y = HEADER + 20 + 34 * (double)i;
        colour(heat(d, n->pairs), fill);
        fprintf(out, "<text x='%.0f' y='%.0f' font-size='11'>", left, y);
        print_step(out, d, n);
        fprintf(out, ": 2^%.1f pairs, %.1f %%</text>\n", n->pairs, 100 * share);
        fprintf(out, "<rect x='%.0f' y='%.0f' width='%.1f' height='9' fill='%s' stroke='#333' stroke-width='0.4'/>\n", left,
                y + 4, 1 + 300 * share, fill);
    }
    free(steps);
}

static void draw_header(FILE *out, const drawing *d, const tensum_cost *cost, const char *title)
{
    char fill[8], bytes[32];
    fprintf(out, "<text x='%d' y='26' font-size='17' font-weight='bold'>", MARGIN);
    print_text(out, title);
    fprintf(out, "</text>\n<text x='%d' y='46' font-size='12'>%lld tensors, %lld steps, %lld slice%s. In all 2^%.2f pairs "
                 "(one multiplication and one addition); largest tensor 2^%.2f elements; 2^%.2f elements read and written; "
                 "intermediates need %s.</text>\n",
            MARGIN, (long long)d->leaves, (long long)d->steps, (long long)cost->slices, cost->slices == 1 ? "" : "s",
            cost->tc, cost->sc, cost->rw, format_bytes((double)cost->peak_bytes_value, bytes));
    fprintf(out, "<text x='%d' y='64' font-size='12'>Squares are input tensors (T), circles are contraction steps (S), the "
                 "result is on top. Colour and size of a circle: pairs of the step. Width of a line: log2 of the tensor's "
                 "elements.</text>\n",
            MARGIN);
    for (int i = 0; i < 100; i++) {
        colour(i / 99.0, fill);
        fprintf(out, "<rect x='%d' y='76' width='2.2' height='10' fill='%s'/>\n", MARGIN + 2 * i, fill);
    }
    if (d->steps != 0) {
        fprintf(out, "<text x='%d' y='98' font-size='11'>2^%.1f</text><text x='%d' y='98' font-size='11' "
                     "text-anchor='end'>2^%.1f pairs</text>\n",
                MARGIN, d->least_pairs, MARGIN + 260, d->most_pairs);
    }
}

tensum_status write_svg(const char *path, const tensum_plan *plan, const char *title)
{
    drawing d = {0};
    tensum_cost cost = TENSUM_COST_INIT;
    char *text = NULL;
    size_t size;
    tensum_status status = build(plan, &d);
    if (status == TENSUM_OK) {
        status = tensum_plan_cost(plan, &cost);
    }
    if (status == TENSUM_OK) {
        FILE *out = open_memstream(&text, &size);
        if (out == NULL) {
            free(d.nodes);
            fprintf(stderr, "tensum: out of memory\n");
            exit(EXIT_MEMORY);
        }
        place(&d);
        double columns = d.leaves > 1 ? (double)d.leaves : 1, rows = d.depth > 0 ? d.depth : 1;
        double dx = columns <= 40 ? 28 : columns <= 400 ? 12 : 4800 / columns;
        double dy = rows <= 40 ? 26 : rows <= 200 ? 12 : 2400 / rows;
        double tree_width = columns * dx < 700 ? 700 : columns * dx;
        double width = tree_width + 2 * MARGIN + PANEL, height = HEADER + rows * dy + MARGIN;
        double panel_height = HEADER + 34.0 * TOP_STEPS + MARGIN;
        height = height > panel_height ? height : panel_height;
        width = width > 1180 ? width : 1180;
        fprintf(out,
                "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' viewBox='0 0 %.0f %.0f' "
                "font-family='sans-serif'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
                width, height, width, height);
        draw_header(out, &d, &cost, title);
        draw_tree(out, &d, dx, dy);
        draw_panel(out, &d, tree_width + 2 * MARGIN);
        fprintf(out, "</svg>\n");
        fclose(out);
        status = tensum_text_write(path, text);
        free(text);
    }
    free(d.nodes);
    return status;
}
