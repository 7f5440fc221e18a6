/* setter.c - a wish, what was sent, and what was seen since. */
#include "device/setter.h"

#include <stdio.h>
#include <string.h>

#define TOLERANCE_MHZ 15u

const char *aw_setter_state_text(enum aw_setter_state state)
{
    static const char *const texts[] = {
#define X(name, text) text,
        AW_SETTER_STATE_MAP(X)
#undef X
    };
    AW_ASSERT((uint32_t)state < AW_SETTER_STATES);
    return texts[state];
}

enum aw_err aw_setter_init(struct aw_setter *setter, const struct aw_devices *devices,
                           const struct aw_setter_config *config, struct aw_diag *diag)
{
    *setter = (struct aw_setter){.config = *config, .devices = devices};
    const uint32_t count = devices->ops->count(devices->self);
    for (uint32_t i = 0; i < count; i++) {
        struct aw_device_info info;
        enum aw_err err = devices->ops->describe(devices->self, i, &info, diag);
        if (err)
            return err;
        setter->device[i].wait_us = config->wait_us  ? config->wait_us
                                    : info.switch_us ? 4 * info.switch_us
                                                     : AW_SETTER_WAIT_US;
    }
    setter->count = count;
    setter->config.tolerance_mhz = config->tolerance_mhz ? config->tolerance_mhz : TOLERANCE_MHZ;
    return AW_OK;
}

static void failed(struct aw_setter *setter, struct aw_setter_device *device, enum aw_err err,
                   const struct aw_diag *diag)
{
    setter->failures++;
    device->state = err == AW_ERR_UNAVAILABLE ? AW_SETTER_LOST : AW_SETTER_REFUSED;
    snprintf(device->why, sizeof device->why, "%.150s", diag->text);
}

static void send(struct aw_setter *setter, uint32_t index, int64_t now_us)
{
    struct aw_setter_device *device = &setter->device[index];
    const struct aw_device_ops *ops = setter->devices->ops;
    struct aw_diag diag = {0};
    enum aw_err err = AW_OK;
    if (!setter->config.act) {
        device->state = AW_SETTER_DRY;
        return;
    }
    /* before the call: one that fails half-way has to be reset, too */
    device->touched = true;
    device->sent_us = now_us;
    device->moved_us = 0;
    device->state = AW_SETTER_MOVING;
    if (device->limit_mw) {
        setter->sets++;
        err = ops->set_limit(setter->devices->self, index, device->limit_mw, now_us, &diag);
    }
    if (!err && device->clock_mhz) {
        setter->sets++;
        err = ops->set_clock(setter->devices->self, index, device->clock_mhz, now_us, &diag);
    }
    if (err)
        failed(setter, device, err, &diag);
}

void aw_setter_want(struct aw_setter *setter, uint32_t index, uint32_t clock_mhz, uint32_t limit_mw,
                    int64_t now_us)
{
    AW_ASSERT(index < setter->count);
    struct aw_setter_device *device = &setter->device[index];
    const uint32_t clock = clock_mhz ? clock_mhz : device->clock_mhz;
    const uint32_t limit = limit_mw ? limit_mw : device->limit_mw;
    if (clock == device->clock_mhz && limit == device->limit_mw)
        return;
    device->clock_mhz = clock;
    device->limit_mw = limit;
    device->tries = 0;
    send(setter, index, now_us);
}

/* Whether what is read is what was wished for. An idle device may run lower. */
static enum aw_setter_state judge(const struct aw_setter *setter,
                                  const struct aw_setter_device *device)
{
    const struct aw_device_reading *r = &device->reading;
    const bool reasons = r->known & AW_DEVICE_REASONS;
    if (device->limit_mw && r->known & AW_DEVICE_LIMIT && r->limit_mw != device->limit_mw)
        return AW_SETTER_MOVING;
    if (!device->clock_mhz || !(r->known & AW_DEVICE_CLOCK))
        return AW_SETTER_DONE;
    const uint32_t tolerance = setter->config.tolerance_mhz;
    if (r->clock_mhz > device->clock_mhz + tolerance)
        return AW_SETTER_MOVING;
    if (r->clock_mhz + tolerance >= device->clock_mhz)
        return AW_SETTER_DONE;
    if (reasons && r->reasons & AW_DEVICE_THROTTLED)
        return AW_SETTER_HELD;
    return reasons && r->reasons & AW_DEVICE_REASON_IDLE ? AW_SETTER_DONE : AW_SETTER_MOVING;
}

static void look(struct aw_setter *setter, uint32_t index, int64_t now_us)
{
    struct aw_setter_device *device = &setter->device[index];
    struct aw_diag diag = {0};
    enum aw_err err =
        setter->devices->ops->read(setter->devices->self, index, now_us, &device->reading, &diag);
    device->read = !err;
    if (err) {
        failed(setter, device, err, &diag);
        return;
    }
    if (device->state == AW_SETTER_FREE || device->state == AW_SETTER_DRY ||
        device->state == AW_SETTER_REFUSED)
        return;
    const enum aw_setter_state seen = judge(setter, device);
    if (seen != AW_SETTER_MOVING) {
        if (!device->moved_us)
            device->moved_us = now_us > device->sent_us ? now_us - device->sent_us : 1;
        device->state = seen;
        device->tries = 0;
        return;
    }
    /* it has not moved yet, or has moved away (a driver that was loaded anew forgets), or the
     * device has come back */
    if (device->state == AW_SETTER_MOVING && now_us - device->sent_us < device->wait_us)
        return;
    if (device->tries >= AW_SETTER_TRIES) {
        device->state = AW_SETTER_IGNORED;
        return;
    }
    device->tries++;
    setter->again++;
    send(setter, index, now_us);
}

void aw_setter_step(struct aw_setter *setter, int64_t now_us)
{
    for (uint32_t i = 0; i < setter->count; i++)
        look(setter, i, now_us);
}

enum aw_err aw_setter_finish(struct aw_setter *setter, int64_t now_us, struct aw_diag *diag)
{
    enum aw_err first = AW_OK;
    for (uint32_t i = 0; i < setter->count; i++) {
        struct aw_setter_device *device = &setter->device[i];
        if (!device->touched)
            continue;
        const enum aw_err err =
            setter->devices->ops->reset(setter->devices->self, i, now_us, first ? NULL : diag);
        first = first ? first : err;
        if (err)
            continue;
        device->touched = false;
        device->state = AW_SETTER_FREE;
        device->clock_mhz = device->limit_mw = 0;
    }
    return first;
}
