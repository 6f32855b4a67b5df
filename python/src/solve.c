/* Problem files: read, solve, and hand the answer over as a dictionary. */
#include "core.h"

/* The edges (u, v, weight) of the graph that a problem is about. NULL with an error set. */
static PyObject *edges_of(const tensum_problem *problem)
{
    PyObject *list = PyList_New(0);
    int64_t u, v;
    double weight;
    for (int64_t i = 0; list != NULL && tensum_problem_edge(problem, i, &u, &v, &weight) == TENSUM_OK; ++i) {
        PyObject *item = Py_BuildValue("(LLd)", (long long)u, (long long)v, weight);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}

/* {"value": ..., "assignments": [...], ...} of an answer. NULL with an error set. */
static PyObject *translate(const tensum_problem *problem, const tensum_answer *answer)
{
    tensum_cost cost = TENSUM_COST_INIT;
    double order_seconds = 0, run_seconds = 0;
    tensum_status status = tensum_answer_cost(answer, &cost, &order_seconds, &run_seconds);
    if (status != TENSUM_OK) {
        return ts_raise(status);
    }
    PyObject *assignments = PyList_New(0), *values = PyList_New(0), *marginals = PyList_New(0), *result = NULL;
    PyObject *costs = ts_cost(&cost), *edges = edges_of(problem);
    bool good = assignments != NULL && values != NULL && marginals != NULL && costs != NULL && edges != NULL;
    int64_t width = tensum_answer_variable_count(answer);
    for (int64_t i = 0; good && i < tensum_answer_assignment_count(answer); ++i) {
        PyObject *item = ts_integer_tuple(tensum_answer_assignment(answer, i), (Py_ssize_t)width);
        good = item != NULL && PyList_Append(assignments, item) == 0;
        Py_XDECREF(item);
    }
    const double *numbers = NULL, *probabilities = NULL;
    const int64_t *offsets = NULL;
    int64_t count = tensum_answer_values(answer, &numbers);
    for (int64_t i = 0; good && i < count; ++i) {
        PyObject *item = PyFloat_FromDouble(numbers[i]);
        good = item != NULL && PyList_Append(values, item) == 0;
        Py_XDECREF(item);
    }
    count = tensum_answer_marginals(answer, &offsets, &probabilities);
    for (int64_t i = 0; good && i < count; ++i) {
        PyObject *row = PyList_New(0);
        for (int64_t j = offsets[i]; row != NULL && j < offsets[i + 1]; ++j) {
            PyObject *item = PyFloat_FromDouble(probabilities[j]);
            if (item == NULL || PyList_Append(row, item) < 0) {
                Py_CLEAR(row);
            }
            Py_XDECREF(item);
        }
        good = row != NULL && PyList_Append(marginals, row) == 0;
        Py_XDECREF(row);
    }
    if (good) {
        result = Py_BuildValue(
            "{s:s,s:d,s:s,s:O,s:O,s:O,s:O,s:O,s:s,s:s,s:s,s:s,s:s,s:d,s:d}", "value_name", tensum_answer_value_name(answer),
            "value", tensum_answer_value(answer), "value_text", tensum_answer_value_text(answer), "assignments", assignments,
            "values", values, "marginals", marginals, "cost", costs, "edges", edges, "text", tensum_answer_text(answer), "note",
            tensum_problem_note(problem), "question", tensum_problem_question(problem), "semiring",
            tensum_semiring_name(tensum_problem_semiring(problem)), "dtype", tensum_dtype_name(tensum_problem_dtype(problem)),
            "order_seconds", order_seconds, "run_seconds", run_seconds);
    }
    Py_XDECREF(assignments);
    Py_XDECREF(values);
    Py_XDECREF(marginals);
    Py_XDECREF(costs);
    Py_XDECREF(edges);
    return result;
}

/* The order in a file, for this network. */
static tensum_status read_order(const char *path, tensum_network *network, tensum_tree **tree)
{
    tensum_file_options options = TENSUM_FILE_OPTIONS_INIT;
    tensum_file *file = NULL;
    options.network = network;
    options.extent = 1; /* extents of a network that comes along do not matter */
    tensum_status status = tensum_file_read(path, &options, &file);
    if (status == TENSUM_OK) {
        *tree = tensum_tree_retain(tensum_file_tree(file));
        tensum_file_release(file);
    }
    return status;
}

/* The plan, and its order into a file if one is named. */
static tensum_status make_plan(tensum_problem *problem, const tensum_solve_options *options, const char *save_order, tensum_plan **plan)
{
    tensum_status status = tensum_problem_plan(problem, options, plan, NULL);
    if (status == TENSUM_OK && save_order != NULL) {
        status = tensum_file_write(save_order, NULL, tensum_plan_network(*plan), tensum_plan_tree(*plan), NULL);
    }
    return status;
}

/* solve(path, *, front_end, question, task, evidence, query, semiring, dtype, count, settings (bytes strings), method, seed, work,
 *       time_limit, minimize, memory_limit, device, progress, order_file, save_order, dry_run): a dry run gives the cost */
PyObject *ts_solve(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    (void)module;
    static char *names[] = {"path", "front_end", "question", "task", "evidence", "query", "semiring", "dtype", "count", "settings",
                            "method", "seed", "work", "time_limit", "minimize", "memory_limit", "device", "progress", "order_file",
                            "save_order", "dry_run", NULL};
    const char *path, *order_file = NULL, *save_order = NULL;
    int dry_run = 0;
    PyObject *semiring_name = Py_None, *dtype_name = Py_None, *settings = Py_None, *place = NULL, *callback = Py_None;
    long long count = 0;
    unsigned long long seed = 0, memory_limit = 0;
    tensum_problem_options problem_options = TENSUM_PROBLEM_OPTIONS_INIT;
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    tensum_solve_options options = TENSUM_SOLVE_OPTIONS_INIT;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|zzzzzOOLOzKddzKOOzzp", names, &path, &problem_options.front_end,
                                     &problem_options.question, &problem_options.task, &problem_options.evidence,
                                     &problem_options.query, &semiring_name, &dtype_name, &count, &settings, &order.method, &seed,
                                     &order.work, &order.time_limit, &order.minimize, &memory_limit, &place, &callback, &order_file,
                                     &save_order, &dry_run)) {
        return NULL;
    }
    if (semiring_name != Py_None) {
        tensum_semiring semiring;
        if (ts_parse_semiring(semiring_name, &semiring) < 0) {
            return NULL;
        }
        problem_options.semiring = (int)semiring;
    }
    if (dtype_name != Py_None) {
        tensum_dtype dtype;
        if (ts_parse_dtype(dtype_name, &dtype) < 0) {
            return NULL;
        }
        problem_options.dtype = (int)dtype;
    }
    options.context = ts_context();
    if (options.context == NULL || (place != NULL && ts_parse_device(place, &options.device) < 0)) {
        return NULL;
    }
    Py_ssize_t setting_count = settings != Py_None ? PySequence_Size(settings) : 0;
    if (setting_count < 0) {
        return NULL;
    }
    /* The strings are kept alive by the tuple. */
    PyObject *kept = settings != Py_None ? PySequence_Tuple(settings) : PyTuple_New(0);
    const char **texts = PyMem_Calloc((size_t)setting_count + 1, sizeof *texts);
    tensum_problem *problem = NULL;
    tensum_answer *answer = NULL;
    tensum_tree *tree = NULL;
    tensum_plan *plan = NULL;
    PyObject *result = NULL;
    if (kept == NULL || texts == NULL) {
        goto done;
    }
    for (Py_ssize_t i = 0; i < setting_count; ++i) {
        texts[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(kept, i), NULL);
        if (texts[i] == NULL) {
            goto done;
        }
    }
    problem_options.settings = texts;
    problem_options.count = count;
    order.seed = seed;
    options.order = &order;
    options.memory_limit = memory_limit;
    ts_progress progress = {NULL, callback == Py_None ? NULL : callback, false};
    options.progress = order.progress = ts_progress_call;
    options.progress_user = order.progress_user = &progress;
    progress.thread = PyEval_SaveThread();
    tensum_status status = tensum_problem_read(path, &problem_options, &problem);
    bool no_order = false;
    if (status == TENSUM_OK && order_file != NULL) {
        status = read_order(order_file, tensum_problem_network(problem), &tree);
        no_order = status == TENSUM_OK && tree == NULL;
        options.tree = tree;
    }
    if (status == TENSUM_OK && !no_order && (dry_run || save_order != NULL)) {
        status = make_plan(problem, &options, save_order, &plan);
    }
    if (status == TENSUM_OK && !no_order && !dry_run) {
        status = tensum_problem_solve(problem, &options, &answer);
    }
    PyEval_RestoreThread(progress.thread);
    if (no_order) {
        PyErr_Format(PyExc_ValueError, "%s holds no contraction order", order_file);
    } else if (!progress.raised) {
        result = status != TENSUM_OK ? ts_raise(status) : dry_run ? ts_cost_of(plan) : translate(problem, answer);
    }
done:
    tensum_plan_release(plan);
    tensum_tree_release(tree);
    tensum_answer_release(answer);
    tensum_problem_release(problem);
    PyMem_Free(texts);
    Py_XDECREF(kept);
    return result;
}

/* front_ends() -> [(name, summary, tasks, questions), ...] */
PyObject *ts_front_ends(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    const char *name;
    for (int i = 0; list != NULL && (name = tensum_front_end_name(i)) != NULL; ++i) {
        PyObject *item = Py_BuildValue("(ssss)", name, tensum_front_end_summary(i), tensum_front_end_tasks(i),
                                       tensum_front_end_questions(i));
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}
