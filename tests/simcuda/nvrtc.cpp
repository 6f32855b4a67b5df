/* The calls of NVRTC that the backend uses. */
#include <simcuda/simnvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

enum { SUCCESS = 0, OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };

struct program {
    std::string text, log, image;
    std::map<std::string, std::string> headers;
    bool ptx = false;
};

long calls, fail_at;
int fail_result;
const char *failed;

bool injected(const char *name)
{
    calls++;
    if (calls == fail_at) {
        failed = name;
        fail_at = 0;
        return true;
    }
    return false;
}
#define ENTER(name)         \
    if (injected(name)) {   \
        return fail_result; \
    }

/* Whatever `text` includes is there; "simcuda/..." is for another compiler. */
void follow(program *p, const std::string &text, std::set<std::string> *seen)
{
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        size_t at = line.find_first_not_of(" \t");
        if (at == std::string::npos || line.compare(at, 8, "#include") != 0) {
            continue;
        }
        size_t open = line.find_first_of("\"<", at), close = line.find_first_of("\">", open + 1);
        if (open == std::string::npos || close == std::string::npos) {
            continue;
        }
        std::string name = line.substr(open + 1, close - open - 1);
        if (name.compare(0, 8, "simcuda/") == 0 || !seen->insert(name).second) {
            continue;
        }
        auto found = p->headers.find(name);
        if (found == p->headers.end()) {
            p->log += "cannot open source file \"" + name + "\"\n";
        } else {
            follow(p, found->second, seen);
        }
    }
}

/* What stands behind `start` in an option, or in a line of the source up to a ')'. */
std::string after(const std::string &text, const char *start)
{
    size_t at = text.find(start);
    return at == std::string::npos ? "" : text.substr(at + strlen(start), text.find(')', at + strlen(start)) - at - strlen(start));
}

std::vector<int> supported()
{
    const char *text = getenv("SIMNVRTC_ARCHITECTURES");
    std::istringstream words(text != nullptr ? text : "75 80 90 100");
    std::vector<int> numbers;
    for (int number; words >> number;) {
        numbers.push_back(number);
    }
    return numbers;
}

} // namespace

extern "C" {

#define EXPORT __attribute__((visibility("default")))

EXPORT void simnvrtc_fail(long n, int result)
{
    calls = 0;
    fail_at = n;
    fail_result = result;
    failed = nullptr;
}
EXPORT long simnvrtc_calls(void) { return calls; }
EXPORT const char *simnvrtc_failed(void) { return failed; }

EXPORT const char *nvrtcGetErrorString(int result)
{
    return result == OUT_OF_MEMORY ? "NVRTC_ERROR_OUT_OF_MEMORY" : "NVRTC_ERROR_OF_THE_STAND_IN";
}
EXPORT int nvrtcVersion(int *major, int *minor)
{
    ENTER("nvrtcVersion");
    const char *text = getenv("SIMNVRTC_VERSION");
    return sscanf(text != nullptr ? text : "13.0", "%d.%d", major, minor) == 2 ? SUCCESS : INVALID_INPUT;
}
EXPORT int nvrtcGetNumSupportedArchs(int *count)
{
    ENTER("nvrtcGetNumSupportedArchs");
    *count = static_cast<int>(supported().size());
    return SUCCESS;
}
EXPORT int nvrtcGetSupportedArchs(int *numbers)
{
    ENTER("nvrtcGetSupportedArchs");
    for (int number : supported()) {
        *numbers++ = number;
    }
    return SUCCESS;
}
EXPORT int nvrtcCreateProgram(program **result, const char *text, const char *name, int count, const char *const *headers,
                              const char *const *names)
{
    ENTER("nvrtcCreateProgram");
    if (text == nullptr || name == nullptr) {
        return INVALID_INPUT;
    }
    program *made = new program();
    made->text = text;
    for (int i = 0; i < count; i++) {
        made->headers[names[i]] = headers[i];
    }
    *result = made;
    return SUCCESS;
}
EXPORT int nvrtcDestroyProgram(program **p)
{
    ENTER("nvrtcDestroyProgram");
    delete *p;
    *p = nullptr;
    return SUCCESS;
}
EXPORT int nvrtcCompileProgram(program *p, int count, const char *const *options)
{
    ENTER("nvrtcCompileProgram");
    std::string architecture, semiring, dtype;
    bool exact = false;
    for (int i = 0; i < count; i++) {
        std::string option = options[i];
        if (option.compare(0, 19, "--gpu-architecture=") == 0) {
            architecture = option.substr(19);
        } else if (option == "--fmad=false") {
            exact = true;
        } else if (option.compare(0, 21, "-DTS_MODULE_SEMIRING=") == 0) {
            semiring = option.substr(21);
        }
    }
    if (architecture.empty() || !exact) {
        p->log = "the options lack something";
        return INVALID_OPTION;
    }
    std::set<std::string> seen;
    follow(p, p->text, &seen);
    if (!p->log.empty()) {
        return COMPILATION;
    }
    p->ptx = architecture.compare(0, 8, "compute_") == 0;
    dtype = after(p->text, "TS_PAIR(s, a, m, sel, ");
    p->image = "simulated " + (semiring.empty() ? "common" : semiring + "_" + dtype) + " " + architecture;
    return SUCCESS;
}
EXPORT int nvrtcGetProgramLogSize(program *p, size_t *bytes)
{
    ENTER("nvrtcGetProgramLogSize");
    *bytes = p->log.size() + 1;
    return SUCCESS;
}
EXPORT int nvrtcGetProgramLog(program *p, char *text)
{
    ENTER("nvrtcGetProgramLog");
    memcpy(text, p->log.c_str(), p->log.size() + 1);
    return SUCCESS;
}
static int image_bytes(program *p, size_t *bytes, bool ptx)
{
    if (p->image.empty() || (p->ptx && !ptx)) {
        return INVALID_PROGRAM;
    }
    *bytes = p->image.size() + 1;
    return SUCCESS;
}
EXPORT int nvrtcGetCUBINSize(program *p, size_t *bytes)
{
    ENTER("nvrtcGetCUBINSize");
    return image_bytes(p, bytes, false);
}
EXPORT int nvrtcGetCUBIN(program *p, char *image)
{
    ENTER("nvrtcGetCUBIN");
    memcpy(image, p->image.c_str(), p->image.size() + 1);
    return SUCCESS;
}
EXPORT int nvrtcGetPTXSize(program *p, size_t *bytes)
{
    ENTER("nvrtcGetPTXSize");
    return image_bytes(p, bytes, true);
}
EXPORT int nvrtcGetPTX(program *p, char *image)
{
    ENTER("nvrtcGetPTX");
    memcpy(image, p->image.c_str(), p->image.size() + 1);
    return SUCCESS;
}
} // extern "C"
