#include "plan/chains.h"

#include "plan/arena.h"

int64_t ts_chain_positions(const tensum_plan *plan, const int32_t *list, int32_t count, ts_label_set *set)
{
    set->count = 0;
    for (int32_t i = 0; i < count; i++) {
        if (!ts_chain_put_touched(plan, &plan->steps[list[i]], set)) {
            return INT64_MAX;
        }
    }
    int64_t largest = ts_chain_live_size(plan, set, ts_chain_big_of(plan, &plan->steps[list[0]]));
    for (int32_t i = 0; i < count; i++) {
        largest = ts_max64(largest, ts_chain_live_size(plan, set, plan->steps[list[i]].c));
    }
    return largest;
}

/* The step that may take the result of `number` further in the same pass, or -1. */
static int32_t next_of(const tensum_plan *plan, const uint8_t *suitable, int32_t number)
{
    const ts_value *c = &plan->values[plan->steps[number].c];
    if (c->place != TS_PLACE_ARENA || c->consumer < 0 || !suitable[c->consumer] || ts_plan_persists(plan, c) ||
        plan->steps[c->consumer].invariant != plan->steps[number].invariant ||
        ts_chain_big_of(plan, &plan->steps[c->consumer]) != plan->steps[number].c) {
        return -1;
    }
    return c->consumer;
}

/* best[i]: the least for the first i steps; from[i]: where the last group of them begins. Groups are put in order. */
static tensum_status cut_path(const tensum_plan *plan, const ts_chain_rules *rules, const int32_t *path, int32_t count, double *best,
                              int32_t *from)
{
    tensum_status status = TENSUM_OK;
    best[0] = 0.0;
    for (int32_t j = 1; j <= count; j++) {
        best[j] = -1.0;
        for (int32_t i = j - 1; i >= 0 && j - i <= rules->most; i--) {
            double cost = best[i] + rules->pass + (double)plan->values[ts_chain_big_of(plan, &plan->steps[path[i]])].elements;
            if (j - i > 1 && !rules->fits(rules->user, path + i, j - i)) {
                break;
            }
            for (int32_t k = i; k < j; k++) {
                cost += rules->stores_all || k + 1 == j ? (double)plan->values[plan->steps[path[k]].c].elements : 0.0;
            }
            if (best[j] < 0.0 || cost < best[j]) {
                best[j] = cost;
                from[j] = i;
            }
        }
    }
    for (int32_t j = count; j > 0; j = from[j]) {
        TRY(rules->add(rules->user, path + from[j], j - from[j]));
    }
done:
    return status;
}

tensum_status ts_plan_chains(const tensum_plan *plan, const ts_chain_rules *rules)
{
    tensum_status status = TENSUM_OK;
    static const char what[] = "the chains of a program";
    const size_t count = (size_t)plan->step_count;
    uint8_t *suitable = NULL, *follows = NULL;
    int32_t *path = NULL, *from = NULL;
    double *best = NULL;
    bool any = false;

    TRY(ts_allocate_zero(count, 1, what, &suitable));
    for (int32_t s = 0; s < plan->step_count; s++) {
        suitable[s] = rules->suits(rules->user, s);
        any = any || suitable[s];
    }
    if (!any) {
        goto done;
    }
    TRY(ts_allocate_zero(count, 1, what, &follows));
    TRY(ts_allocate(count, sizeof *path, what, &path));
    TRY(ts_allocate(count + 1, sizeof *from, what, &from));
    TRY(ts_allocate(count + 1, sizeof *best, what, &best));
    for (int32_t s = 0; s < plan->step_count; s++) {
        const int32_t next = suitable[s] ? next_of(plan, suitable, s) : -1;
        if (next >= 0) {
            follows[next] = 1;
        }
    }
    for (int32_t s = 0; s < plan->step_count; s++) {
        int32_t length = 0;
        if (!suitable[s] || follows[s]) {
            continue;
        }
        for (int32_t at = s; at >= 0; at = next_of(plan, suitable, at)) {
            path[length++] = at;
        }
        TRY(cut_path(plan, rules, path, length, best, from));
    }
done:
    ts_free(suitable);
    ts_free(follows);
    ts_free(path);
    ts_free(from);
    ts_free(best);
    return status;
}

tensum_status ts_plan_place_groups(const tensum_plan *plan, const int32_t *previous, const uint8_t *is_last, int64_t *offsets,
                                   uint64_t *bytes)
{
    tensum_status status = TENSUM_OK;
    const int64_t element = (int64_t)tensum_dtype_bytes(plan->algebra.dtype);
    ts_arena arena = {0};

    for (int32_t v = 0; v < plan->value_count; v++) {
        offsets[v] = -1;
        if (plan->values[v].place == TS_PLACE_ARENA && ts_plan_persists(plan, &plan->values[v])) {
            TRY(ts_arena_take(&arena, plan->values[v].elements * element, &offsets[v]));
        }
    }
    for (int32_t s = 0; s < plan->step_count; s++) {
        const int32_t c = plan->steps[s].c;
        if (!is_last[s]) {
            continue;
        }
        if (plan->values[c].place == TS_PLACE_ARENA && offsets[c] < 0) {
            TRY(ts_arena_take(&arena, plan->values[c].elements * element, &offsets[c]));
        }
        for (int32_t k = s; k >= 0; k = previous[k]) {
            const int32_t operands[2] = {plan->steps[k].a, plan->steps[k].b};
            for (int i = 0; i < 2; i++) {
                const int32_t v = operands[i];
                if (v >= 0 && plan->values[v].place == TS_PLACE_ARENA && offsets[v] >= 0 && !ts_plan_persists(plan, &plan->values[v])) {
                    ts_arena_give(&arena, offsets[v]);
                }
            }
        }
    }
    *bytes = (uint64_t)arena.bytes;
done:
    ts_arena_free(&arena);
    return status;
}
