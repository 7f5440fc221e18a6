/* prompt.c - hashed words and hand features of a prompt. */
#include "serving/prompt.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/hash.h"

#define WORD_MAX  24u  /* bytes of a word that count */
#define WORDS_MAX 160u /* of the prompt; half from the front, half from the back */

struct word {
    char text[WORD_MAX];
    uint32_t len;
};

/* What an answer's length hangs on, in words that prompts use. Each list is one hand feature. A
 * word that ends with '*' stands for all that begin so. */
static const char *const lists[][28] = {
    /* answers of a word or a line */
    {"categor*", "classif*", "sentiment", "emoji*",  "label",   "tag",    "genre",  "yes",
     "true",     "positive", "negative",  "choose",  "pick",    "decide", "select", "determine",
     "indicate", "identify", "which",     "correct", "predict", NULL},
    /* answers as long as what was given */
    {"rewrite", "paraphrase", "translate", "convert", "grammar", "spelling", "capitalize",
     "punctuation", "rephrase", "sentence", "edit", "fix", "reword", "format", "extract",
     "retrieve", "replace", "sort", NULL},
    /* a line or two of invention */
    {"title",      "motto", "slogan",   "caption", "headline",     "tagline", "tweet",
     "name",       "word",  "quote",    "joke",    "pun",          "haiku",   "riddle",
     "compliment", "hook",  "synonym*", "term",    "abbreviation", "acronym", NULL},
    /* facts */
    {"who",     "when",      "where", "year",   "date",  "many", "much", "old",
     "capital", "far",       "tall",  "fast",   "does",  "is",   "are",  "was",
     "did",     "calculate", "sum",   "equals", "solve", NULL},
    /* whole texts */
    {"essay",   "article",    "story", "stories",   "script",     "blog",    "speech",
     "novel",   "chapter",    "book",  "report",    "whitepaper", "paper",   "monologue",
     "dialog*", "screenplay", "play",  "backstory", "episode",    "podcast", "thesis",
     "memo",    "biography",  "scene", "patent",    NULL},
    /* plans and courses */
    {"plan",      "guide",         "syllabus",   "itinerary", "curriculum", "lesson",
     "roadmap",   "strategy",      "strategies", "schedule",  "course",     "proposal",
     "business",  "bibliography",  "tutorial",   "recipe",    "outline",    "project",
     "checklist", "questionnaire", "survey",     "agenda",    NULL},
    /* letters and verse */
    {"email", "letter", "poem", "song", "lyrics", "essay", "review", "description", "post",
     "message", "rap", "ad", "advertisement", "paragraph", "summary", "summarize", "abstract",
     NULL},
    /* programs */
    {"code",       "program", "function", "script", "implement", "algorithm", "python", "java",
     "javascript", "sql",     "html",     "css",    "game",      "bot",       "app",    "api",
     "class",      "regex",   "c",        "rust",   "query",     "react",     NULL},
    /* asked to be long */
    {"detailed", "detail",   "comprehensive", "thorough", "depth",     "long",
     "complete", "step",     "steps",         "full",     "extensive", "elaborate",
     "discuss",  "explain",  "analyze",       "compare",  "describe",  "including",
     "include",  "examples", "each",          "history",  "process",   NULL},
    /* asked to be short */
    {"short", "brief", "briefly", "concise", "one", "only", "just", "simple", "single", "quick",
     "answer", "less", "few", "small", NULL},
    {"write", "create", "compose", "draft", "generate", "design", "develop", "structure", "build",
     "make", "produce", NULL},
    {"list", "ideas", "tips", "ways", "suggest*", "recommend*", "things", "top", "best", "some",
     "options", "pros", "advantages", "benefits", "names", "table", NULL},
    {"how", NULL},
    {"what", NULL},
    {"why", NULL},
    {"given", "following", "provided", "below", "based", NULL},
    {"can", "could", "please", "help", "i", "me", "my", NULL},
};
#define LISTS ((uint32_t)(sizeof lists / sizeof *lists))
_Static_assert(2 * (sizeof lists / sizeof *lists) <= AW_PROMPT_HAND - 33, "room for the rest");

static bool matches(const struct word *word, const char *entry)
{
    const size_t len = strlen(entry);
    if (entry[len - 1] == '*')
        return word->len >= len - 1 && !memcmp(word->text, entry, len - 1);
    return word->len == len && !memcmp(word->text, entry, len);
}

static uint32_t words_read(const char *text, size_t len, uint32_t max, struct word *words)
{
    uint32_t count = 0;
    for (size_t i = 0; i < len && count < max;) {
        while (i < len && !isalnum((unsigned char)text[i]) && (unsigned char)text[i] < 0x80)
            i++;
        struct word *word = &words[count];
        word->len = 0;
        for (; i < len && (isalnum((unsigned char)text[i]) || (unsigned char)text[i] >= 0x80 ||
                           text[i] == '\'');
             i++)
            if (word->len < WORD_MAX)
                word->text[word->len++] = (char)tolower((unsigned char)text[i]);
        count += word->len > 0;
    }
    return count;
}

static void term_add(struct aw_prompt *prompt, uint64_t hash, float weight)
{
    if (prompt->terms == AW_PROMPT_TERMS)
        return;
    hash ^= hash >> 29; /* FNV's low bits are weak */
    hash *= UINT64_C(0xbf58476d1ce4e5b9);
    hash ^= hash >> 32;
    prompt->bucket[prompt->terms] = (uint16_t)(hash % AW_PROMPT_BUCKETS);
    prompt->value[prompt->terms++] = hash >> 63 ? weight : -weight;
}

static uint64_t word_hash(uint64_t hash, const struct word *word)
{
    return aw_hash_byte(aw_hash_bytes(hash, word->text, word->len), 0);
}

static void terms_make(struct aw_prompt *prompt, const struct word *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        term_add(prompt, word_hash(AW_HASH_BEGIN, &words[i]), 1);
        if (i + 1 < count)
            term_add(prompt, word_hash(word_hash(AW_HASH_BEGIN + 1, &words[i]), &words[i + 1]),
                     0.5f);
        if (i < 3) /* what kind of request it is stands at its front */
            term_add(prompt, word_hash(AW_HASH_BEGIN + 2 + i, &words[i]), 2);
        if (i + 2 >= count)
            term_add(prompt, word_hash(AW_HASH_BEGIN + 7, &words[i]), 1);
    }
    float norm = 0;
    for (uint32_t i = 0; i < prompt->terms; i++)
        norm += prompt->value[i] * prompt->value[i];
    for (uint32_t i = 0; norm > 0 && i < prompt->terms; i++)
        prompt->value[i] /= sqrtf(norm);
}

/* "2000 word essay", "50 short stories", "in 100 words": the logarithm of the number. */
static float number_asked(const struct word *words, uint32_t count)
{
    double most = 0;
    for (uint32_t i = 0; i + 1 < count; i++) {
        double number = 0;
        for (uint32_t k = 0; k < words[i].len && number < 1e6; k++)
            number = isdigit((unsigned char)words[i].text[k])
                         ? 10 * number + (words[i].text[k] - '0')
                         : 1e9;
        if (number >= 1e6 || number == 0)
            continue;
        if (matches(&words[i + 1], "word*") || matches(&words[i + 1], "page*") ||
            matches(&words[i + 1], "minute*"))
            number *= matches(&words[i + 1], "page*") ? 400 : 1;
        else if (number < 3 || number > 200) /* years and amounts */
            continue;
        else
            number *= 10;
        most = number > most ? number : most;
    }
    return most > 0 ? (float)(log(most) / 5) : 0;
}

static void hand_make(struct aw_prompt *prompt, const struct word *words, uint32_t count,
                      uint32_t instruction, const char *text, size_t len)
{
    float *hand = prompt->hand;
    uint32_t at = 0;
    for (uint32_t l = 0; l < LISTS; l++, at += 2) {
        uint32_t hits = 0;
        for (uint32_t i = 0; i < instruction; i++)
            for (uint32_t k = 0; lists[l][k]; k++)
                if (matches(&words[i], lists[l][k])) {
                    hits++;
                    if (i < 5)
                        hand[at + 1] = 1;
                }
        hand[at] = hits ? 0.5f + 0.5f * fminf((float)(hits - 1) / 3, 1) : 0;
    }
    uint32_t lines = 0, digits = 0, marks = 0, upper = 0, quotes = 0, code = 0, ends = 0;
    for (size_t i = 0; i < len; i++) {
        lines += text[i] == '\n';
        digits += isdigit((unsigned char)text[i]) != 0;
        marks += text[i] == '?';
        upper += isupper((unsigned char)text[i]) != 0;
        quotes += text[i] == '"';
        code += strchr("{}<>=;_", text[i]) != NULL;
        ends += strchr(".!?", text[i]) != NULL;
    }
    hand[at++] = number_asked(words, count);
    hand[at++] = fminf((float)log1p(count) / 4, 2);
    hand[at++] = fminf((float)lines / 6, 1.5f);
    hand[at++] = fminf((float)digits / 12, 1.5f);
    hand[at++] = marks > 0;
    static const char *const begins[] = {"how", "what",    "write", "can",     "give", "create",
                                         "you", "who",     "i",     "explain", "list", "why",
                                         "is",  "provide", "tell",  "make"};
    for (uint32_t b = 0; b < sizeof begins / sizeof *begins; b++)
        hand[at++] = count > 0 && matches(&words[0], begins[b]);
    hand[at++] = fminf((float)log1p(instruction) / 4, 2);
    hand[at++] = memchr(text, ':', len) != NULL;
    hand[at++] = upper <= 1; /* typed in haste */
    hand[at++] = quotes > 1;
    hand[at++] = fminf((float)code / 8, 1.5f);
    hand[at++] = fminf((float)ends / 4, 1.5f);
    /* an instruction, an empty line, and what it is about: mostly a small task */
    hand[at++] = instruction < count;
    hand[at++] = instruction < count ? fminf((float)(count - instruction) / 40, 1.5f) : 0;
    hand[at++] = instruction < count && count - instruction < 6;
    hand[at++] = count < 8;
    hand[at++] = len && text[len - 1] == '?';
    hand[at++] = prompt->tokens_max ? (float)(log(prompt->tokens_max) / 8) : 1.2f;
}

void aw_prompt_read(struct aw_prompt *prompt, const char *text, size_t len, const char *model,
                    uint32_t tokens_max)
{
    struct word words[WORDS_MAX];
    memset(prompt, 0, sizeof *prompt);
    const uint64_t name = aw_hash_text(AW_HASH_BEGIN, model);
    prompt->hash = aw_hash_bytes(aw_hash_byte(name, 0), text, len);
    prompt->model = (uint32_t)(name ^ name >> 32);
    const uint64_t alone = aw_hash_bytes(AW_HASH_BEGIN, text, len);
    prompt->text = (uint32_t)(alone ^ alone >> 32);
    prompt->tokens_max = tokens_max;
    const size_t half = AW_PROMPT_BYTES / 2, front = len > AW_PROMPT_BYTES ? half : len;
    uint32_t count = words_read(text, front, len > front ? WORDS_MAX / 2 : WORDS_MAX, words);
    if (len > front)
        count += words_read(text + len - half, half, WORDS_MAX - count, words + count);
    terms_make(prompt, words, count);
    const char *gap = memmem(text, front, "\n\n", 2);
    struct word first[WORDS_MAX];
    uint32_t instruction = gap ? words_read(text, (size_t)(gap - text), WORDS_MAX, first) : count;
    instruction = instruction && instruction < count ? instruction : count;
    hand_make(prompt, words, count, instruction, text, front);
}
