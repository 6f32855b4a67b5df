/* The table of front ends, and what all of them share. */
#include <math.h>
#include <stdio.h>

#include "algebra/algebra.h"
#include "problems/problem.h"

#define FRONT_ENDS(X) X(uai) X(graph) X(qubo) X(ising) X(wcsp) X(cnf) X(maxsat) X(circuit)

#define DECLARE(id) extern const ts_front_end ts_front_end_##id;
FRONT_ENDS(DECLARE)
#undef DECLARE

static const ts_front_end *const front_ends[] = {
#define ROW(id) &ts_front_end_##id,
    FRONT_ENDS(ROW)
#undef ROW
};
enum { FRONT_END_COUNT = sizeof front_ends / sizeof *front_ends, MOST_NAMES = 64, NAME_BYTES = 40 };

const char *tensum_front_end_name(int index)
{
    return index >= 0 && index < FRONT_END_COUNT ? front_ends[index]->name : NULL;
}
const char *tensum_front_end_summary(int index)
{
    return index >= 0 && index < FRONT_END_COUNT ? front_ends[index]->summary : NULL;
}
const char *tensum_front_end_tasks(int index)
{
    return index >= 0 && index < FRONT_END_COUNT ? front_ends[index]->tasks : NULL;
}
const char *tensum_front_end_questions(int index)
{
    const char *questions = index >= 0 && index < FRONT_END_COUNT ? front_ends[index]->questions : NULL;
    return questions != NULL ? questions : index >= 0 && index < FRONT_END_COUNT ? "" : NULL;
}

const char *tensum_front_end_settings(int index)
{
    const char *settings = index >= 0 && index < FRONT_END_COUNT ? front_ends[index]->settings : NULL;
    return settings != NULL ? settings : index >= 0 && index < FRONT_END_COUNT ? "" : NULL;
}

/* ---- names in a list such as "map|mpe pr mar" ---- */

/* Copy the canonical name of the word that `wanted` is or is an alias of; NULL: the first of the list. */
static tensum_status choose(const char *kind, const char *list, const char *wanted, char *store, size_t room)
{
    char words[MOST_NAMES][NAME_BYTES];
    const char *pointers[MOST_NAMES];
    size_t count = 0, first_of_group = 0;
    for (const char *c = list; *c != 0;) {
        size_t length = strcspn(c, " |");
        if (length != 0 && length < NAME_BYTES && count < MOST_NAMES) {
            memcpy(words[count], c, length);
            words[count][length] = 0;
            pointers[count] = words[count];
            if (c == list || c[-1] == ' ') {
                first_of_group = count;
            }
            if (wanted == NULL || strcmp(wanted, words[count]) == 0) {
                snprintf(store, room, "%s", words[first_of_group]);
                return TENSUM_OK;
            }
            count++;
        }
        c += length;
        c += *c != 0;
    }
    const char *nearest = ts_nearest_name(wanted, pointers, count);
    return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "there is no %s '%s'%s%s%s, expected one of: %s", kind, wanted,
                   nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                   nearest != NULL ? "'?" : "", list);
}

bool ts_has_suffix(const char *name, const char *suffixes)
{
    size_t length = strlen(name);
    if (length > 3 && strcmp(name + length - 3, ".gz") == 0) {
        length -= 3;
    }
    for (const char *c = suffixes; *c != 0;) {
        size_t end = strcspn(c, " ");
        if (end != 0 && length >= end && memcmp(name + length - end, c, end) == 0) {
            return true;
        }
        c += end;
        c += *c != 0;
    }
    return false;
}

static tensum_status find_front_end(const ts_input *input, const char *name, const ts_front_end **found)
{
    const char *names[FRONT_END_COUNT];
    for (int i = 0; i < FRONT_END_COUNT; i++) {
        names[i] = front_ends[i]->name;
        if (name != NULL ? strcmp(name, names[i]) == 0 : ts_has_suffix(input->name, front_ends[i]->suffixes)) {
            *found = front_ends[i];
            return TENSUM_OK;
        }
    }
    if (name != NULL) {
        const char *nearest = ts_nearest_name(name, names, FRONT_END_COUNT);
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "there is no front end '%s'%s%s%s", name,
                       nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                       nearest != NULL ? "'?" : "");
    }
    for (int i = 0; i < FRONT_END_COUNT; i++) {
        if (front_ends[i]->recognize(input)) {
            *found = front_ends[i];
            return TENSUM_OK;
        }
    }
    return ts_fail(TENSUM_STATUS_MALFORMED, "%.300s:1:1: this is no kind of problem file that is known", input->name);
}

/* ---- settings ---- */

const char *ts_setting(const tensum_problem_options *options, const char *name)
{
    size_t length = strlen(name);
    for (const char *const *s = options->settings; s != NULL && *s != NULL; s++) {
        if (strncmp(*s, name, length) == 0 && (*s)[length] == '=') {
            return *s + length + 1;
        }
    }
    return NULL;
}

tensum_status ts_setting_integer(const tensum_problem_options *options, const char *name, int64_t lowest,
                                 int64_t highest, int64_t standard, int64_t *value)
{
    const char *text = ts_setting(options, name);
    int64_t number = standard;
    if (text != NULL && (!ts_parse_integer(text, strlen(text), &number) || number < lowest || number > highest)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "setting %s=%s, expected an integer from %lld to %lld", name, text,
                       (long long)lowest, (long long)highest);
    }
    *value = number;
    return TENSUM_OK;
}

static tensum_status check_settings(const ts_front_end *front_end, const tensum_problem_options *options)
{
    char store[NAME_BYTES];
    for (const char *const *s = options->settings; s != NULL && *s != NULL; s++) {
        char name[NAME_BYTES];
        size_t length = strcspn(*s, "=");
        if ((*s)[length] != '=' || length == 0 || length >= sizeof name) {
            return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "setting '%s', expected NAME=VALUE", *s);
        }
        memcpy(name, *s, length);
        name[length] = 0;
        if (front_end->settings == NULL) {
            return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "front end '%s' has no settings, found '%s'", front_end->name, *s);
        }
        tensum_status status = choose("setting", front_end->settings, name, store, sizeof store);
        if (status != TENSUM_OK) {
            return status;
        }
    }
    return TENSUM_OK;
}

/* ---- operands ---- */

static tensum_status add_operand(tensum_problem *problem, int32_t rank, const int64_t *labels, const int64_t *extents,
                                 ts_operand **operand, int64_t *count)
{
    tensum_status status = TENSUM_OK;
    ts_operand new_operand = {.rank = rank};
    size_t bytes = tensum_dtype_bytes(problem->dtype);
    *count = 1;
    for (int32_t i = 0; i < rank; i++) {
        if (!ts_multiply(*count, extents[i], count)) {
            return ts_fail(TENSUM_STATUS_SIZE_OVERFLOW, "%.300s: a table of more than 2^63 elements", problem->name);
        }
    }
    TRY(ts_reserve((size_t)problem->operand_count + 1, sizeof *problem->operands, "operands",
                   &problem->operand_capacity, &problem->operands));
    TRY(ts_allocate(2 * (size_t)rank, sizeof *labels, "labels", &new_operand.labels));
    new_operand.extents = new_operand.labels + rank;
    if (rank != 0) {
        memcpy(new_operand.labels, labels, (size_t)rank * sizeof *labels);
        memcpy(new_operand.extents, extents, (size_t)rank * sizeof *extents);
    }
    TRY(ts_allocate((size_t)*count, bytes, "a table", &new_operand.elements));
    problem->operands[problem->operand_count] = new_operand;
    *operand = &problem->operands[problem->operand_count++];
    return TENSUM_OK;
done:
    ts_free(new_operand.labels);
    return status;
}

tensum_status ts_problem_add(tensum_problem *problem, int32_t rank, const int64_t *labels, const int64_t *extents,
                             const double *elements, int64_t *index)
{
    tensum_status status = TENSUM_OK;
    ts_operand *operand;
    int64_t count;
    TRY(add_operand(problem, rank, labels, extents, &operand, &count));
    if (elements != NULL) {
        double *unchanged = (double *)(uintptr_t)elements; /* a source is not written to */
        tensum_tensor from = {unchanged, TENSUM_F64, 1, &count, NULL, {TENSUM_CPU, 0}};
        tensum_tensor to = {operand->elements, problem->dtype, 1, &count, NULL, {TENSUM_CPU, 0}};
        TRY(tensum_convert(&from, &to));
    } else {
        size_t bytes = tensum_dtype_bytes(problem->dtype);
        ts_element one;
        TRY(tensum_semiring_identity(problem->semiring, problem->dtype, 1, &one));
        for (int64_t i = 0; i < count; i++) {
            memcpy((char *)operand->elements + (size_t)i * bytes, &one, bytes);
        }
    }
    if (index != NULL) {
        *index = problem->operand_count - 1;
    }
done:
    return status;
}

tensum_status ts_problem_add_raw(tensum_problem *problem, int32_t rank, const int64_t *labels, const int64_t *extents,
                                 const void *elements, int64_t *index)
{
    tensum_status status = TENSUM_OK;
    ts_operand *operand;
    int64_t count;
    TRY(add_operand(problem, rank, labels, extents, &operand, &count));
    memcpy(operand->elements, elements, (size_t)count * tensum_dtype_bytes(problem->dtype));
    if (index != NULL) {
        *index = problem->operand_count - 1;
    }
done:
    return status;
}

static tensum_status make_network(tensum_problem *problem)
{
    tensum_status status = TENSUM_OK;
    size_t n = (size_t)problem->operand_count;
    tensum_network_spec spec = TENSUM_NETWORK_SPEC_INIT;
    int32_t *ranks = NULL;
    const int64_t **labels = NULL, **extents = NULL;
    TRY(ts_allocate(n, sizeof *ranks, "operands", &ranks));
    TRY(ts_allocate(n, sizeof *labels, "operands", &labels));
    TRY(ts_allocate(n, sizeof *extents, "operands", &extents));
    TRY(ts_allocate(n, sizeof *problem->inputs, "operands", &problem->inputs));
    for (size_t i = 0; i < n; i++) {
        const ts_operand *operand = &problem->operands[i];
        ranks[i] = operand->rank;
        labels[i] = operand->labels;
        extents[i] = operand->extents;
        problem->inputs[i] = (tensum_tensor){operand->elements, problem->dtype,   operand->rank,
                                             operand->extents,  NULL, {TENSUM_CPU, 0}};
    }
    spec.operand_count = problem->operand_count;
    spec.ranks = ranks;
    spec.labels = labels;
    spec.extents = extents;
    spec.output_rank = (int32_t)problem->output_rank;
    spec.output_labels = problem->output_labels;
    status = tensum_network_create(&spec, &problem->network);
    if (status != TENSUM_OK) {
        ts_fail_prefix(status, "%.300s", problem->name);
    }
done:
    ts_free(ranks);
    ts_free(labels);
    ts_free(extents);
    return status;
}

/* ---- life ---- */

tensum_status ts_problem_from_input(const ts_input *input, const tensum_problem_options *given,
                                    tensum_problem **out)
{
    tensum_status status = TENSUM_OK;
    tensum_problem *problem = NULL;
    tensum_problem_options options = TENSUM_PROBLEM_OPTIONS_INIT;
    char *names = NULL;
    if (given != NULL) {
        memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    }
    if (options.semiring >= (int)TENSUM_SEMIRING_COUNT || options.dtype >= (int)TENSUM_DTYPE_COUNT) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "semiring %d or dtype %d is out of range", options.semiring,
                       options.dtype);
    }
    TRY(ts_allocate_zero(1, sizeof *problem, "a problem", &problem));
    atomic_init(&problem->references, 1);
    TRY(find_front_end(input, options.front_end, &problem->front_end));
    size_t name_bytes = strlen(input->name) + 1;
    TRY(ts_allocate(name_bytes + 2 * (size_t)NAME_BYTES, 1, "names", &names));
    memcpy(names, input->name, name_bytes);
    problem->name = names;
    names += name_bytes;
    TRY(choose("task", problem->front_end->tasks, options.task, names, NAME_BYTES));
    problem->task = names;
    if (problem->front_end->questions != NULL) {
        names += NAME_BYTES;
        TRY(choose("question", problem->front_end->questions, options.question, names, NAME_BYTES));
        problem->question = names;
    } else if (options.question != NULL) {
        status = ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "front end '%s' has no questions to choose from, found '%s'",
                         problem->front_end->name, options.question);
        goto done;
    }
    TRY(check_settings(problem->front_end, &options));
    problem->count = options.count;
    problem->modes = TENSUM_VALUE;
    TRY(problem->front_end->read(input, &options, problem));
    TRY(make_network(problem));
    ts_text_add_bytes(&problem->note, "", 0);
    TRY(problem->note.status);
    *out = problem;
    problem = NULL;
done:
    tensum_problem_release(problem);
    return status;
}

tensum_status tensum_problem_read(const char *path, const tensum_problem_options *options, tensum_problem **problem)
{
    ts_input input;
    if (path == NULL || problem == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "path or problem is NULL");
    }
    tensum_status status = ts_input_read(path, &input);
    if (status == TENSUM_OK) {
        status = ts_problem_from_input(&input, options, problem);
        ts_input_free(&input);
    }
    return status;
}

tensum_problem *tensum_problem_retain(tensum_problem *problem)
{
    if (problem != NULL) {
        atomic_fetch_add(&problem->references, 1);
    }
    return problem;
}

void tensum_problem_release(tensum_problem *problem)
{
    if (problem == NULL || atomic_fetch_sub(&problem->references, 1) != 1) {
        return;
    }
    if (problem->front_end != NULL && problem->front_end->destroy != NULL) {
        problem->front_end->destroy(problem->state);
    }
    for (int64_t i = 0; i < problem->operand_count; i++) {
        ts_free(problem->operands[i].labels);
        ts_free(problem->operands[i].elements);
    }
    tensum_network_release(problem->network);
    ts_free(problem->operands);
    ts_free(problem->output_labels);
    ts_free(problem->inputs);
    ts_free(problem->name);
    ts_text_free(&problem->note);
    ts_free(problem);
}

tensum_network *tensum_problem_network(const tensum_problem *problem) { return problem->network; }
const tensum_tensor *tensum_problem_inputs(const tensum_problem *problem) { return problem->inputs; }
tensum_semiring tensum_problem_semiring(const tensum_problem *problem) { return problem->semiring; }
tensum_dtype tensum_problem_dtype(const tensum_problem *problem) { return problem->dtype; }
const char *tensum_problem_note(const tensum_problem *problem) { return problem->note.bytes; }
const char *tensum_problem_question(const tensum_problem *problem) { return problem->question != NULL ? problem->question : ""; }

tensum_status tensum_problem_edge(const tensum_problem *problem, int64_t index, int64_t *u, int64_t *v, double *weight)
{
    if (problem == NULL || u == NULL || v == NULL || weight == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "an argument is NULL");
    }
    if (problem->front_end->edge == NULL || index < 0 || !problem->front_end->edge(problem, index, u, v, weight)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%.300s: there is no edge number %lld", problem->name, (long long)index);
    }
    return TENSUM_OK;
}
