/* external_agent.c - the standing of an agent that lives somewhere else. */
#include "safety/external_agent.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"

#define LEVEL_MAX 16u /* doublings of the back-off that are remembered */
/* Of a value in [-1, 1] that was computed in double and cut to float. */
#define ROUNDING 1e-6f

#define AW_CONF_OF struct aw_external_agent_settings
const struct aw_conf_field aw_external_agent_fields[] = {
    AW_CONF_NUMBER(deadline, "1", 0.001, 60, "seconds that an external agent has to answer"),
    AW_CONF_NUMBER(strikes, "3", 1, 1000, "bad answers that set it aside"),
    AW_CONF_NUMBER(forgive, "20", 1, 1000000,
                   "good answers that take back one bad one, or one doubling of the time aside"),
    AW_CONF_NUMBER(
        probation, "10", 1, 1000000,
        "good answers in a row before it is followed, at first and after every time aside"),
    AW_CONF_NUMBER(backoff, "60", 1, 86400, "seconds for which it is set aside; doubles"),
    AW_CONF_NUMBER(backoff_max, "3600", 1, 864000, "longest of these times in seconds"),
    {0},
};

static const struct {
    const char *name, *sentence;
} faults[] =
    {
#define X(id, name, sentence) {name, sentence},
        AW_EXTERNAL_AGENT_FAULT_MAP(X)
#undef X
},
  standings[] = {
#define X(id, name, sentence) {name, sentence},
      AW_EXTERNAL_AGENT_STANDING_MAP(X)
#undef X
};

const char *aw_external_agent_fault_name(enum aw_external_agent_fault fault)
{
    AW_ASSERT((size_t)fault < AW_EXTERNAL_AGENT_FAULT_COUNT);
    return faults[fault].name;
}

static const char *external_fault_sentence(enum aw_external_agent_fault fault)
{
    AW_ASSERT((size_t)fault < AW_EXTERNAL_AGENT_FAULT_COUNT);
    return faults[fault].sentence;
}

const char *aw_external_agent_standing_name(enum aw_external_agent_standing standing)
{
    AW_ASSERT((size_t)standing < AW_EXTERNAL_AGENT_STANDING_COUNT);
    return standings[standing].name;
}

static const char *external_standing_sentence(enum aw_external_agent_standing standing)
{
    AW_ASSERT((size_t)standing < AW_EXTERNAL_AGENT_STANDING_COUNT);
    return standings[standing].sentence;
}

const char *aw_external_agent_report_format(const struct aw_external_agent_report *report,
                                            char *buf, size_t size)
{
    struct aw_text text;
    aw_text_init(&text, buf, size);
    if (report->standing == AW_EXTERNAL_AGENT_ABSENT && *report->name) {
        aw_text_add(&text, "agent %s has left, and nobody else has registered", report->name);
        return buf;
    }
    if (*report->name)
        aw_text_add(&text, "agent %s is %s: ", report->name,
                    report->follow ? "followed" : "not followed");
    if (report->standing == AW_EXTERNAL_AGENT_ASIDE)
        aw_text_add(&text, "%s; %.0f s are left",
                    external_standing_sentence(AW_EXTERNAL_AGENT_ASIDE), report->left_s);
    else if (report->fault > AW_EXTERNAL_AGENT_FAULT_UNASKED)
        aw_text_add(&text, "it %s (strike %u of %u)", external_fault_sentence(report->fault),
                    report->strikes, report->strikes_max);
    else if (report->shadow && report->standing == AW_EXTERNAL_AGENT_TRUSTED)
        aw_text_add(&text, "it has registered as a shadow");
    else if (report->standing == AW_EXTERNAL_AGENT_PROBATION)
        aw_text_add(&text, "%s (%u of %u good answers)",
                    external_standing_sentence(AW_EXTERNAL_AGENT_PROBATION), report->streak,
                    report->probation);
    else
        aw_text_add(&text, "%s", external_standing_sentence(report->standing));
    return buf;
}

uint64_t aw_external_agent_id(const char *name)
{
    uint64_t h = aw_hash_text(AW_HASH_BEGIN, name);
    return h ? h : 1;
}

enum aw_external_agent_fault aw_external_agent_check(const float *values, size_t count,
                                                     uint32_t dim, float ret_action[AW_ACTION_MAX])
{
    if (count != dim)
        return AW_EXTERNAL_AGENT_FAULT_SIZE;
    for (size_t i = 0; i < dim; i++)
        if (!isfinite(values[i]))
            return AW_EXTERNAL_AGENT_FAULT_NOT_FINITE;
    for (size_t i = 0; i < dim; i++)
        if (fabsf(values[i]) > 1 + ROUNDING)
            return AW_EXTERNAL_AGENT_FAULT_BOUNDS;
    for (size_t i = 0; i < dim; i++)
        ret_action[i] = fminf(1, fmaxf(-1, values[i]));
    return AW_EXTERNAL_AGENT_FAULT_NONE;
}

/* --- a tick ----------------------------------------------------------------------------------- */

void aw_external_agent_begin(struct aw_external_agent_memory *memory, int64_t now_us)
{
    memset(memory, 0, sizeof *memory);
    memory->seen_us = now_us;
}

/* A clock that went back makes no time aside longer than it is. */
static int64_t until_us(const struct aw_external_agent_memory *memory, int64_t now_us)
{
    const int64_t back = memory->seen_us > now_us ? memory->seen_us - now_us : 0;
    return memory->until_us > back ? memory->until_us - back : memory->until_us;
}

static bool ended(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

bool aw_external_agent_sound(const struct aw_external_agent_memory *memory,
                             const struct aw_external_agent_answer *heard)
{
    const struct aw_external_agent_words *words = &heard->words;
    float action[AW_ACTION_MAX];
    return memory->standing < AW_EXTERNAL_AGENT_STANDING_COUNT && memory->shadow <= 1 &&
           ended(memory->name, sizeof memory->name) &&
           heard->fault < AW_EXTERNAL_AGENT_FAULT_COUNT && heard->shadow <= 1 &&
           heard->took_s >= 0 && isfinite(heard->took_s) &&
           aw_external_agent_check(heard->action, AW_ACTION_MAX, AW_ACTION_MAX, action) ==
               AW_EXTERNAL_AGENT_FAULT_NONE &&
           words->has_confidence <= 1 && words->confidence >= 0 && words->confidence <= 1 &&
           ended(words->explanation, sizeof words->explanation) &&
           ended(heard->name, sizeof heard->name);
}

bool aw_external_agent_asks(const struct aw_external_agent_memory *memory, int64_t now_us)
{
    return memory->standing != AW_EXTERNAL_AGENT_ASIDE || now_us >= until_us(memory, now_us);
}

static void set_aside(const struct aw_external_agent_settings *settings,
                      struct aw_external_agent_memory *memory, int64_t now_us)
{
    const double seconds =
        fmin(settings->backoff_max, ldexp(settings->backoff, (int)memory->level));
    memory->standing = AW_EXTERNAL_AGENT_ASIDE;
    memory->until_us = now_us + (int64_t)(seconds * 1e6);
    memory->level += memory->level < LEVEL_MAX;
    memory->asides++;
    memory->strikes = memory->streak = 0;
}

static void take_good(const struct aw_external_agent_settings *settings,
                      struct aw_external_agent_memory *memory)
{
    memory->good++;
    memory->streak += memory->streak < UINT32_MAX;
    if (memory->streak % settings->forgive == 0) {
        if (memory->strikes > 0)
            memory->strikes--;
        else
            memory->level -= memory->level > 0;
    }
    if (memory->standing == AW_EXTERNAL_AGENT_PROBATION && memory->streak >= settings->probation)
        memory->standing = AW_EXTERNAL_AGENT_TRUSTED;
}

static void take_bad(const struct aw_external_agent_settings *settings,
                     struct aw_external_agent_memory *memory, enum aw_external_agent_fault fault,
                     int64_t now_us)
{
    memory->bad++;
    memory->streak = 0;
    memory->strikes++;
    if (memory->strikes >= settings->strikes || fault == AW_EXTERNAL_AGENT_FAULT_FLOOD)
        set_aside(settings, memory, now_us);
}

/* Who is there, before its answer is looked at. */
static void meet(struct aw_external_agent_memory *memory,
                 const struct aw_external_agent_answer *answer)
{
    if (answer->agent == 0) {
        memory->standing = AW_EXTERNAL_AGENT_ABSENT;
        memory->streak = 0;
        return;
    }
    if (answer->agent != memory->agent || memory->standing == AW_EXTERNAL_AGENT_ABSENT ||
        memory->standing == AW_EXTERNAL_AGENT_ASIDE) {
        memory->standing = AW_EXTERNAL_AGENT_PROBATION;
        memory->streak = 0;
    }
    memory->agent = answer->agent;
    memory->shadow = answer->shadow;
    memcpy(memory->name, answer->name, sizeof memory->name);
}

void aw_external_agent_words_take(struct aw_external_agent_words *words, const float *confidence,
                                  const char *explanation)
{
    memset(words, 0, sizeof *words);
    if (confidence && *confidence >= 0 && *confidence <= 1) {
        words->has_confidence = 1;
        words->confidence = *confidence;
    }
    size_t used = 0;
    const char *at = explanation ? explanation : "";
    for (size_t left = strlen(at); left > 0;) {
        const size_t len = aw_text_utf8_length(at, left);
        const bool plain = len > 1 || (len == 1 && *at >= ' ' && *at != 0x7f);
        /* the controls that take two bytes, U+0080 to U+009F, begin with C2 */
        const bool control =
            len == 2 && (unsigned char)at[0] == 0xc2 && (unsigned char)at[1] < 0xa0;
        const size_t step = len ? len : 1, room = plain && !control ? step : 1;
        if (used + room >= sizeof words->explanation)
            break;
        if (plain && !control)
            memcpy(words->explanation + used, at, step);
        else
            words->explanation[used] = len == 1 ? ' ' : '?';
        if (words->explanation[used] == '"')
            words->explanation[used] = '\'';
        else if (words->explanation[used] == '\\')
            words->explanation[used] = '/';
        used += room;
        at += step;
        left -= step;
    }
}

void aw_external_agent_step(const struct aw_external_agent_settings *settings,
                            struct aw_external_agent_memory *memory,
                            const struct aw_external_agent_answer *answer, int64_t now_us,
                            struct aw_external_agent_report *ret_report)
{
    AW_ASSERT(answer->fault < AW_EXTERNAL_AGENT_FAULT_COUNT);
    const uint32_t before = memory->standing;
    const enum aw_external_agent_fault fault = (enum aw_external_agent_fault)answer->fault;
    const bool asked = answer->agent && fault != AW_EXTERNAL_AGENT_FAULT_UNASKED;
    memory->until_us = until_us(memory, now_us);
    memory->seen_us = now_us;
    const bool aside = memory->standing == AW_EXTERNAL_AGENT_ASIDE && now_us < memory->until_us;
    if (aside) {
        /* whoever is there now, and whatever they say */
    } else {
        meet(memory, answer);
        if (asked && fault == AW_EXTERNAL_AGENT_FAULT_NONE)
            take_good(settings, memory);
        else if (asked)
            take_bad(settings, memory, fault, now_us);
    }
    const bool counts = !aside && asked && fault == AW_EXTERNAL_AGENT_FAULT_NONE;
    *ret_report = (struct aw_external_agent_report){
        .standing = (enum aw_external_agent_standing)memory->standing,
        .fault = fault,
        .asked = asked,
        .follow = counts && memory->standing == AW_EXTERNAL_AGENT_TRUSTED && !answer->shadow,
        .shadow = answer->shadow,
        .moved = memory->standing != before,
        .strikes = memory->strikes,
        .strikes_max = settings->strikes,
        .streak = memory->streak,
        .probation = settings->probation,
        .left_s = memory->standing == AW_EXTERNAL_AGENT_ASIDE
                      ? 1e-6 * (double)(memory->until_us - now_us)
                      : 0,
    };
    memcpy(ret_report->name, memory->name, sizeof ret_report->name);
    if (counts)
        ret_report->words = answer->words;
}
