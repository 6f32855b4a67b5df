/* JSON and lines for people. */
#include <stdlib.h>
#include <string.h>

#include "command.h"

const char *format_real(double value, char text[32])
{
    if (!isfinite(value)) {
        snprintf(text, 32, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return text;
    }
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(text, 32, "%.*g", precision, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    return text;
}

const char *format_bytes(double bytes, char text[32])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int unit = 0;
    while (bytes >= 1024 && unit < 5) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
    return text;
}

void print_json_string(const char *value)
{
    putchar('"');
    for (const char *c = value; *c != 0; c++) {
        if (*c == '"' || *c == '\\') {
            printf("\\%c", *c);
        } else if ((unsigned char)*c < 0x20) {
            printf("\\u%04x", (unsigned)(unsigned char)*c);
        } else {
            putchar(*c);
        }
    }
    putchar('"');
}

void json_begin(json_object *object)
{
    object->begun = false;
    putchar('{');
}

void json_key(json_object *object, const char *key)
{
    printf(object->begun ? ", " : "");
    object->begun = true;
    print_json_string(key);
    printf(": ");
}

void json_string(json_object *object, const char *key, const char *value)
{
    json_key(object, key);
    print_json_string(value);
}

void json_real(json_object *object, const char *key, double value)
{
    char text[32];
    json_key(object, key);
    printf("%s", isfinite(value) ? format_real(value, text) : "null");
    if (!isfinite(value)) {
        char name[64];
        snprintf(name, sizeof name, "%s_text", key);
        json_string(object, name, format_real(value, text));
    }
}

void json_integer(json_object *object, const char *key, int64_t value)
{
    json_key(object, key);
    printf("%lld", (long long)value);
}

void json_end(json_object *object)
{
    (void)object;
    printf("}\n");
}

uint64_t peak_bytes(const tensum_cost *cost, unsigned modes)
{
    uint64_t peak = cost->peak_bytes_value;
    if ((modes & TENSUM_DECODE) != 0 && cost->peak_bytes_decode > peak) {
        peak = cost->peak_bytes_decode;
    }
    if ((modes & TENSUM_GRADIENT) != 0 && cost->peak_bytes_gradient > peak) {
        peak = cost->peak_bytes_gradient;
    }
    return peak;
}

static const char *device_name(tensum_device device, char text[32])
{
    if (device.kind == TENSUM_CUDA) {
        snprintf(text, 32, "cuda:%d", (int)device.index);
    } else {
        snprintf(text, 32, "%s", device.kind == TENSUM_CPU ? "cpu" : "reference");
    }
    return text;
}

/* What this process has done on a device; nothing for devices that have no counters. */
void json_counters(json_object *object, tensum_device device)
{
    static const struct {
        const char *name;
        size_t at;
    } counters[] = {
#define COUNTER(name) {#name, offsetof(tensum_device_counters, name)}
        COUNTER(uploads), COUNTER(upload_bytes), COUNTER(downloads), COUNTER(download_bytes), COUNTER(launches),
        COUNTER(graph_launches), COUNTER(module_loads), COUNTER(module_compilations), COUNTER(allocations), COUNTER(releases),
        COUNTER(held_bytes), COUNTER(synchronisations), COUNTER(retired_deferred), COUNTER(retired_released),
        COUNTER(retired_waits), COUNTER(retired_barriers), COUNTER(retired_leaked), COUNTER(retired_in_flight),
        COUNTER(retired_in_flight_peak), COUNTER(retired_bytes),
#undef COUNTER
    };
    tensum_device_counters values = TENSUM_DEVICE_COUNTERS_INIT;
    json_object inner;

    if (device.kind != TENSUM_CUDA || tensum_device_stats(device, &values) != TENSUM_OK) {
        return;
    }
    json_key(object, "device_counters");
    json_begin(&inner);
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        uint64_t value;
        memcpy(&value, (const char *)&values + counters[i].at, sizeof value);
        json_integer(&inner, counters[i].name, (int64_t)value);
    }
    printf("}");
}

void json_cost(json_object *object, const tensum_cost *cost, unsigned modes, double order_seconds,
               double run_seconds, tensum_device device)
{
    char text[32];
    json_real(object, "tc", cost->tc);
    json_real(object, "sc", cost->sc);
    json_real(object, "rw", cost->rw);
    json_integer(object, "steps", cost->steps);
    json_integer(object, "slices", cost->slices);
    if (cost->slices > 1) {
        json_real(object, "overhead", cost->overhead);
    }
    json_integer(object, "peak_bytes", (int64_t)peak_bytes(cost, modes));
    json_real(object, "order_seconds", order_seconds);
    if (run_seconds >= 0) {
        json_real(object, "run_seconds", run_seconds);
    }
    json_string(object, "device", device_name(device, text));
    json_counters(object, device);
}

void print_cost(FILE *stream, const tensum_cost *cost, double order_seconds)
{
    char value[32], gradient[32], decode[32];
    fprintf(stream, "tc %.2f   sc %.2f   rw %.2f   (log2 of pairs, of the largest tensor, of elements moved)\n", cost->tc,
            cost->sc, cost->rw);
    fprintf(stream, "%lld steps, %lld slice%s, order found in %.2f s\n", (long long)cost->steps, (long long)cost->slices,
            cost->slices == 1 ? "" : "s", order_seconds);
    if (cost->slices > 1) {
        fprintf(stream, "slices together take 2^%.2f times the pairs of the unsliced order\n", cost->overhead);
    }
    fprintf(stream, "peak memory of intermediates: value %s, gradient %s, decode %s\n",
            format_bytes((double)cost->peak_bytes_value, value), format_bytes((double)cost->peak_bytes_gradient, gradient),
            format_bytes((double)cost->peak_bytes_decode, decode));
}
