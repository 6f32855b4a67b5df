/* Programs and workspaces: a plan bound to a backend and a set of modes. */
#ifndef TS_EXECUTE_PROGRAM_H
#define TS_EXECUTE_PROGRAM_H

#include "backend/backend.h"
#include "execute/cache.h"
#include "plan/plan.h"

struct tensum_program {
    atomic_int references;
    tensum_plan *plan;
    tensum_context *context; /* may be NULL */
    bool borrows_context;    /* held by the context's own cache: a reference would be a cycle */
    const ts_backend *backend;
    tensum_device device;
    unsigned modes;
    bool check;
    bool saved;             /* gradients from the output and the winners of an earlier run */
    void *compiled;         /* program backends: theirs; step backends: execute's */
    size_t workspace_bytes;
};

/* What of a limit is left to small things that are not counted: plan, program, stacks, pages of code. */
uint64_t ts_program_share(uint64_t limit);
/* What a program of these modes would take on a device, counted as tensum_plan_options::memory_limit tells; *fixed: of
 * that, what no other order of the same network would change. */
tensum_status ts_program_measure(tensum_plan *plan, tensum_context *context, tensum_device device, unsigned modes,
                                 uint64_t *bytes, uint64_t *fixed);

#endif
