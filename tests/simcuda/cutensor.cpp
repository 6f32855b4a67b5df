/* The calls of cuTENSOR that the backend uses, simulated. */
#include <simcuda/cutensor.h>
#include <simcuda/simcuda.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

enum { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15, CUDA_ERROR = 18, INSUFFICIENT_WORKSPACE = 19 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, C_32F = 4, C_64F = 5, R_16BF = 14 };
enum { IDENTITY = 1, CONJUGATE = 9 };
enum { ALIVE = 0x7e5a11fe };

namespace {

typedef std::complex<double> number;

/* Everything that callers hold begins with a mark, so that use after the end shows. */
struct object {
    int mark = ALIVE;
};
struct handle : object {};
struct tensor : object {
    std::vector<int64_t> extents, strides;
    int dtype = 0;
    uint32_t alignment = 1;
};
struct operand {
    tensor shape;
    std::vector<int32_t> modes;
    bool conjugate = false;
};
struct operation : object {
    operand a, b, c;
    bool wide = false;
};
struct preference : object {};
struct plan : object {
    operation what;
    uint64_t scratch = 0;
};

std::mutex guard;
uint64_t per_element = 16, next_pattern = 1;
long plans, calls, live;
std::vector<std::pair<uint64_t, uint64_t>> touched; /* begin, end; a call's are followed by 0, 0 */
int compute_32, compute_64;

template <typename T> bool alive(const T *thing)
{
    return thing != nullptr && thing->mark == ALIVE;
}

template <typename T> T *make()
{
    std::lock_guard<std::mutex> lock(guard);
    live++;
    return new T();
}

template <typename T> int end(T *thing)
{
    if (!alive(thing)) {
        simcuda_report("cuTENSOR: an object was destroyed that does not exist");
        return NOT_INITIALIZED;
    }
    std::lock_guard<std::mutex> lock(guard);
    thing->mark = 0;
    live--;
    delete thing;
    return SUCCESS;
}

size_t bytes_of(int dtype)
{
    return dtype == C_64F ? 16 : dtype == R_64F || dtype == C_32F ? 8 : dtype == R_32F ? 4 : 2;
}

double from_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 0    ? std::ldexp(fraction, -24)
                   : exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                                    : std::ldexp(1024 + fraction, exponent - 25);
    return (bits & 0x8000) != 0 ? -value : value;
}

uint16_t to_half(double value)
{
    _Float16 half = static_cast<_Float16>(value);
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

uint16_t to_bfloat(double value)
{
    float single = static_cast<float>(value);
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (value != value) {
        return static_cast<uint16_t>(bits >> 16 | 64);
    }
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

number load(int dtype, const unsigned char *at)
{
    float f[2];
    double d[2];
    uint16_t h;
    switch (dtype) {
    case R_32F: memcpy(f, at, 4); return f[0];
    case R_64F: memcpy(d, at, 8); return d[0];
    case C_32F: memcpy(f, at, 8); return number(f[0], f[1]);
    case C_64F: memcpy(d, at, 16); return number(d[0], d[1]);
    case R_16F: memcpy(&h, at, 2); return from_half(h);
    default: {
        memcpy(&h, at, 2);
        uint32_t bits = static_cast<uint32_t>(h) << 16;
        memcpy(f, &bits, 4);
        return f[0];
    }
    }
}

void store(int dtype, number value, unsigned char *at)
{
    float f[2] = {static_cast<float>(value.real()), static_cast<float>(value.imag())};
    double d[2] = {value.real(), value.imag()};
    uint16_t h = dtype == R_16F ? to_half(value.real()) : to_bfloat(value.real());
    switch (dtype) {
    case R_32F: memcpy(at, f, 4); break;
    case R_64F: memcpy(at, d, 8); break;
    case C_32F: memcpy(at, f, 8); break;
    case C_64F: memcpy(at, d, 16); break;
    default: memcpy(at, &h, 2);
    }
}

uint64_t span(const operand &o)
{
    int64_t last = 0;
    for (size_t i = 0; i < o.modes.size(); i++) {
        last += (o.shape.extents[i] - 1) * o.shape.strides[i];
    }
    return (static_cast<uint64_t>(last) + 1) * bytes_of(o.shape.dtype);
}

/* One contraction on its way. */
struct work {
    operation what;
    uint64_t a, b, c, scratch, scratch_bytes, pattern;
    number alpha, beta;
};

unsigned char *pointer(uint64_t address)
{
    return reinterpret_cast<unsigned char *>(static_cast<uintptr_t>(address));
}

int begin(void *user)
{
    work *w = static_cast<std::shared_ptr<work> *>(user)->get();
    if (w->scratch_bytes > 0 && simcuda_inside(w->scratch, w->scratch_bytes) == 0) {
        simcuda_report("cuTENSOR: scratch was freed before the contraction ran");
        return SUCCESS;
    }
    for (uint64_t i = 0; i + 8 <= w->scratch_bytes; i += 8) {
        memcpy(pointer(w->scratch + i), &w->pattern, 8);
    }
    return SUCCESS;
}

number sum(const work *w, const std::vector<int32_t> &summed, const std::vector<int64_t> &extents, size_t depth, int64_t a,
           int64_t b)
{
    const operand &x = w->what.a, &y = w->what.b;
    if (depth == summed.size()) {
        number p = load(x.shape.dtype, pointer(w->a) + a * static_cast<int64_t>(bytes_of(x.shape.dtype)));
        number q = load(y.shape.dtype, pointer(w->b) + b * static_cast<int64_t>(bytes_of(y.shape.dtype)));
        p = x.conjugate ? std::conj(p) : p;
        q = y.conjugate ? std::conj(q) : q;
        return number(p.real() * q.real() - p.imag() * q.imag(), p.real() * q.imag() + p.imag() * q.real());
    }
    number total = 0;
    size_t i = static_cast<size_t>(std::find(x.modes.begin(), x.modes.end(), summed[depth]) - x.modes.begin());
    size_t j = static_cast<size_t>(std::find(y.modes.begin(), y.modes.end(), summed[depth]) - y.modes.begin());
    for (int64_t k = 0; k < extents[depth]; k++) {
        total += sum(w, summed, extents, depth + 1, a + k * x.shape.strides[i], b + k * y.shape.strides[j]);
    }
    return total;
}

int finish(void *user)
{
    work *w = static_cast<std::shared_ptr<work> *>(user)->get();
    const operand &c = w->what.c;
    std::vector<int32_t> summed;
    std::vector<int64_t> extents, at(c.modes.size(), 0);

    if (w->scratch_bytes > 0 && simcuda_inside(w->scratch, w->scratch_bytes) == 0) {
        simcuda_report("cuTENSOR: scratch was freed while the contraction ran");
        return SUCCESS;
    }
    for (uint64_t i = 0; i + 8 <= w->scratch_bytes; i += 8) {
        if (memcmp(pointer(w->scratch + i), &w->pattern, 8) != 0) {
            simcuda_report("cuTENSOR: scratch was used by somebody else while the contraction ran");
            return SUCCESS;
        }
    }
    if (simcuda_inside(w->a, span(w->what.a)) == 0 || simcuda_inside(w->b, span(w->what.b)) == 0 ||
        simcuda_inside(w->c, span(c)) == 0) {
        simcuda_report("cuTENSOR: an operand is not inside a live block");
        return SUCCESS;
    }
    for (size_t i = 0; i < w->what.a.modes.size(); i++) {
        if (std::find(c.modes.begin(), c.modes.end(), w->what.a.modes[i]) == c.modes.end()) {
            summed.push_back(w->what.a.modes[i]);
            extents.push_back(w->what.a.shape.extents[i]);
        }
    }
    for (bool more = true; more;) {
        int64_t offsets[3] = {0, 0, 0};
        const operand *operands[3] = {&w->what.a, &w->what.b, &c};
        for (size_t m = 0; m < at.size(); m++) {
            for (int o = 0; o < 3; o++) {
                const std::vector<int32_t> &modes = operands[o]->modes;
                size_t i = static_cast<size_t>(std::find(modes.begin(), modes.end(), c.modes[m]) - modes.begin());
                offsets[o] += i < modes.size() ? at[m] * operands[o]->shape.strides[i] : 0;
            }
        }
        unsigned char *target = pointer(w->c) + offsets[2] * static_cast<int64_t>(bytes_of(c.shape.dtype));
        number value = w->alpha * sum(w, summed, extents, 0, offsets[0], offsets[1]);
        if (w->beta != 0.0) {
            value += w->beta * load(c.shape.dtype, target);
        }
        store(c.shape.dtype, value, target);
        more = false;
        for (size_t m = at.size(); m > 0 && !more; m--) {
            more = ++at[m - 1] < c.shape.extents[m - 1];
            at[m - 1] = more ? at[m - 1] : 0;
        }
    }
    return SUCCESS;
}

void drop(void *user)
{
    delete static_cast<std::shared_ptr<work> *>(user);
}

void take(operand *to, const tensor *shape, const int32_t *modes, int op)
{
    to->shape = *shape;
    to->modes.assign(modes, modes + shape->extents.size());
    to->conjugate = op == CONJUGATE;
}

bool misaligned(uint64_t address, const operand &o)
{
    return address % o.shape.alignment != 0;
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
#define ENTER(name)                     \
    {                                   \
        int failed = simcuda_call(name); \
        if (failed != SUCCESS) {        \
            return failed;              \
        }                               \
    }

EXPORT const void *const CUTENSOR_COMPUTE_DESC_32F = &compute_32;
EXPORT const void *const CUTENSOR_COMPUTE_DESC_64F = &compute_64;

EXPORT void simcutensor_scratch(uint64_t bytes_per_element)
{
    std::lock_guard<std::mutex> lock(guard);
    per_element = bytes_per_element;
}
EXPORT long simcutensor_plans(void)
{
    std::lock_guard<std::mutex> lock(guard);
    return plans;
}
EXPORT long simcutensor_calls(void)
{
    std::lock_guard<std::mutex> lock(guard);
    return calls;
}
EXPORT long simcutensor_live(void)
{
    std::lock_guard<std::mutex> lock(guard);
    return live;
}
EXPORT void simcutensor_reset(void)
{
    std::lock_guard<std::mutex> lock(guard);
    plans = calls = 0;
    touched.clear();
}
EXPORT long simcutensor_touched(uint64_t address, size_t bytes)
{
    std::lock_guard<std::mutex> lock(guard);
    long count = 0;
    bool hit = false;
    for (auto &range : touched) {
        if (range.second == 0) {
            count += hit;
            hit = false;
        } else {
            hit = hit || (range.first < address + bytes && address < range.second);
        }
    }
    return count;
}

EXPORT size_t cutensorGetVersion(void) { return 20900; }
EXPORT const char *cutensorGetErrorString(int) { return "simulated"; }

EXPORT int cutensorCreate(handle **result)
{
    ENTER("cutensorCreate");
    *result = make<handle>();
    return SUCCESS;
}
EXPORT int cutensorDestroy(handle *h) { return end(h); }

EXPORT int cutensorCreateTensorDescriptor(const handle *h, tensor **result, uint32_t count, const int64_t *extents,
                                          const int64_t *strides, int dtype, uint32_t alignment)
{
    ENTER("cutensorCreateTensorDescriptor");
    if (!alive(h)) {
        return NOT_INITIALIZED;
    }
    std::vector<std::pair<int64_t, int64_t>> sorted;
    for (uint32_t i = 0; i < count; i++) {
        if (extents[i] <= 0 || strides[i] <= 0) {
            return INVALID_VALUE;
        }
        sorted.push_back({strides[i], extents[i]});
    }
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i + 1 < sorted.size(); i++) {
        if (sorted[i + 1].first < sorted[i].first * sorted[i].second) {
            return INVALID_VALUE;
        }
    }
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment % bytes_of(dtype) != 0) {
        return INVALID_VALUE;
    }
    tensor *made = make<tensor>();
    made->extents.assign(extents, extents + count);
    made->strides.assign(strides, strides + count);
    made->dtype = dtype;
    made->alignment = alignment;
    *result = made;
    return SUCCESS;
}
EXPORT int cutensorDestroyTensorDescriptor(tensor *t) { return end(t); }

EXPORT int cutensorCreateContraction(const handle *h, operation **result, const tensor *a, const int32_t *modes_a, int op_a,
                                     const tensor *b, const int32_t *modes_b, int op_b, const tensor *c,
                                     const int32_t *modes_c, int op_c, const tensor *d, const int32_t *modes_d,
                                     const void *compute)
{
    ENTER("cutensorCreateContraction");
    if (!alive(h) || !alive(a) || !alive(b) || !alive(c) || c != d || modes_c != modes_d || op_c != IDENTITY) {
        return INVALID_VALUE;
    }
    bool wide = a->dtype == R_64F || a->dtype == C_64F;
    if (a->dtype != b->dtype || a->dtype != c->dtype || compute != (wide ? &compute_64 : &compute_32)) {
        return NOT_SUPPORTED;
    }
    operation *made = make<operation>();
    take(&made->a, a, modes_a, op_a);
    take(&made->b, b, modes_b, op_b);
    take(&made->c, c, modes_c, op_c);
    made->wide = wide;
    /* Every mode in two tensors or all three, with one extent. */
    bool good = true;
    for (const operand *o : {&made->a, &made->b, &made->c}) {
        for (size_t i = 0; i < o->modes.size(); i++) {
            int seen = 0;
            for (const operand *other : {&made->a, &made->b, &made->c}) {
                for (size_t j = 0; j < other->modes.size(); j++) {
                    if (other->modes[j] == o->modes[i]) {
                        seen++;
                        good = good && other->shape.extents[j] == o->shape.extents[i];
                    }
                }
            }
            good = good && seen >= 2;
        }
    }
    if (!good) {
        (void)end(made);
        return INVALID_VALUE;
    }
    *result = made;
    return SUCCESS;
}
EXPORT int cutensorDestroyOperationDescriptor(operation *o) { return end(o); }

EXPORT int cutensorCreatePlanPreference(const handle *h, preference **result, int algorithm, int jit)
{
    ENTER("cutensorCreatePlanPreference");
    if (!alive(h) || algorithm != -1 || jit != 0) {
        return INVALID_VALUE;
    }
    *result = make<preference>();
    return SUCCESS;
}
EXPORT int cutensorDestroyPlanPreference(preference *p) { return end(p); }

static uint64_t scratch_of(const operation *o)
{
    uint64_t elements = 1;
    for (int64_t extent : o->c.shape.extents) {
        elements *= static_cast<uint64_t>(extent);
    }
    std::lock_guard<std::mutex> lock(guard);
    return (elements * per_element + 255) / 256 * 256;
}

EXPORT int cutensorEstimateWorkspaceSize(const handle *h, const operation *o, const preference *p, int size, uint64_t *bytes)
{
    ENTER("cutensorEstimateWorkspaceSize");
    if (!alive(h) || !alive(o) || !alive(p) || size != 2) {
        return INVALID_VALUE;
    }
    *bytes = 2 * scratch_of(o); /* an estimate: a plan needs less */
    return SUCCESS;
}
EXPORT int cutensorCreatePlan(const handle *h, plan **result, const operation *o, const preference *p, uint64_t limit)
{
    ENTER("cutensorCreatePlan");
    if (!alive(h) || !alive(o) || !alive(p)) {
        return INVALID_VALUE;
    }
    uint64_t scratch = scratch_of(o);
    if (scratch > limit) {
        return INSUFFICIENT_WORKSPACE;
    }
    plan *made = make<plan>();
    made->what = *o;
    made->scratch = scratch;
    {
        std::lock_guard<std::mutex> lock(guard);
        plans++;
    }
    *result = made;
    return SUCCESS;
}
EXPORT int cutensorPlanGetAttribute(const handle *h, const plan *p, int attribute, void *value, size_t bytes)
{
    ENTER("cutensorPlanGetAttribute");
    if (!alive(h) || !alive(p) || attribute != 0 || bytes != sizeof p->scratch) {
        return INVALID_VALUE;
    }
    memcpy(value, &p->scratch, bytes);
    return SUCCESS;
}
EXPORT int cutensorDestroyPlan(plan *p) { return end(p); }

EXPORT int cutensorContract(const handle *h, const plan *p, const void *alpha, const void *a, const void *b, const void *beta,
                            const void *c, void *d, void *scratch, uint64_t scratch_bytes, void *stream)
{
    ENTER("cutensorContract");
    if (!alive(h) || !alive(p)) {
        simcuda_report("cuTENSOR: a handle or plan is used after its end");
        return NOT_INITIALIZED;
    }
    if (c != d) {
        return INVALID_VALUE;
    }
    if (scratch_bytes < p->scratch) {
        return INSUFFICIENT_WORKSPACE;
    }
    std::shared_ptr<work> w(new work());
    w->what = p->what;
    w->a = reinterpret_cast<uintptr_t>(a);
    w->b = reinterpret_cast<uintptr_t>(b);
    w->c = reinterpret_cast<uintptr_t>(c);
    w->scratch = reinterpret_cast<uintptr_t>(scratch);
    w->scratch_bytes = p->scratch;
    if (p->what.wide) {
        w->alpha = *static_cast<const double *>(alpha);
        w->beta = *static_cast<const double *>(beta);
    } else {
        w->alpha = *static_cast<const float *>(alpha);
        w->beta = *static_cast<const float *>(beta);
    }
    if (misaligned(w->a, w->what.a) || misaligned(w->b, w->what.b) || misaligned(w->c, w->what.c) ||
        (w->scratch_bytes > 0 && w->scratch % 256 != 0)) {
        simcuda_report("cuTENSOR: an address is less aligned than its plan was promised");
        return INVALID_VALUE;
    }
    {
        std::lock_guard<std::mutex> lock(guard);
        w->pattern = next_pattern++ * 0x9e3779b97f4a7c15u;
        calls++;
        touched.push_back({w->a, w->a + span(w->what.a)});
        touched.push_back({w->b, w->b + span(w->what.b)});
        touched.push_back({w->c, w->c + span(w->what.c)});
        if (w->scratch_bytes > 0) {
            touched.push_back({w->scratch, w->scratch + w->scratch_bytes});
        }
        touched.push_back({0, 0});
    }
    if (simcuda_enqueue(stream, begin, drop, new std::shared_ptr<work>(w)) != SUCCESS ||
        simcuda_enqueue(stream, finish, drop, new std::shared_ptr<work>(w)) != SUCCESS) {
        return CUDA_ERROR;
    }
    return SUCCESS;
}
