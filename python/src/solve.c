/* Problem files: read, solve, and hand the answer over as a dictionary. */
#include "core.h"

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
    bool good = assignments != NULL && values != NULL && marginals != NULL;
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
            "{s:s,s:d,s:s,s:O,s:O,s:O,s:s,s:s,s:s,s:s,s:d,s:d,s:d,s:d,s:d,s:L,s:L,s:K,s:K,s:K,s:K}", "value_name",
            tensum_answer_value_name(answer), "value", tensum_answer_value(answer), "value_text",
            tensum_answer_value_text(answer), "assignments", assignments, "values", values, "marginals", marginals, "text",
            tensum_answer_text(answer), "note", tensum_problem_note(problem), "semiring",
            tensum_semiring_name(tensum_problem_semiring(problem)), "dtype", tensum_dtype_name(tensum_problem_dtype(problem)),
            "order_seconds", order_seconds, "run_seconds", run_seconds, "tc", cost.tc, "sc", cost.sc, "rw", cost.rw, "steps",
            (long long)cost.steps, "slices", (long long)cost.slices, "peak_bytes_value", (unsigned long long)cost.peak_bytes_value,
            "peak_bytes_winners", (unsigned long long)cost.peak_bytes_winners, "peak_bytes_gradient",
            (unsigned long long)cost.peak_bytes_gradient, "peak_bytes_decode", (unsigned long long)cost.peak_bytes_decode);
    }
    Py_XDECREF(assignments);
    Py_XDECREF(values);
    Py_XDECREF(marginals);
    return result;
}

/* solve(path, *, front_end, question, task, evidence, query, semiring, dtype, count, settings (bytes strings), method, seed, work,
 *       time_limit, minimize, memory_limit, device, progress) */
PyObject *ts_solve(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    (void)module;
    static char *names[] = {"path", "front_end", "question", "task", "evidence", "query", "semiring", "dtype", "count", "settings",
                            "method", "seed", "work", "time_limit", "minimize", "memory_limit", "device", "progress", NULL};
    const char *path;
    PyObject *semiring_name = Py_None, *dtype_name = Py_None, *settings = Py_None, *place = NULL, *callback = Py_None;
    long long count = 0;
    unsigned long long seed = 0, memory_limit = 0;
    tensum_problem_options problem_options = TENSUM_PROBLEM_OPTIONS_INIT;
    tensum_order_options order = TENSUM_ORDER_OPTIONS_INIT;
    tensum_solve_options options = TENSUM_SOLVE_OPTIONS_INIT;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|zzzzzOOLOzKddzKOO", names, &path, &problem_options.front_end,
                                     &problem_options.question, &problem_options.task, &problem_options.evidence,
                                     &problem_options.query, &semiring_name, &dtype_name, &count, &settings, &order.method, &seed,
                                     &order.work, &order.time_limit, &order.minimize, &memory_limit, &place, &callback)) {
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
    if (status == TENSUM_OK) {
        status = tensum_problem_solve(problem, &options, &answer);
    }
    PyEval_RestoreThread(progress.thread);
    if (!progress.raised) {
        result = status == TENSUM_OK ? translate(problem, answer) : ts_raise(status);
    }
done:
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
