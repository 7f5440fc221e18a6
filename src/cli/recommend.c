/* recommend.c - the verb `recommend`: what is recommended on a cluster, as patches for Git. */
#include "controller/recommended.h"

#include "frame/show.h"
#include "frame/verbs.h"
#include "kube/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ATTEMPTS_MAX 3u /* of a question: somebody is waiting at a terminal */

enum form { FORM_DIFF, FORM_YAML, FORM_KUSTOMIZE };
static const char *const forms[] = {"diff", "yaml", "kustomize", NULL};

struct view {
    const struct aw_call *run;
    struct aw_kube *kube;
    enum form form;
    const char *name; /* NULL: all of them */
    uint32_t seen, patched;
    json_t *patches; /* KUSTOMIZE */
};

/* --- as a diff --- */

/* Objects of the same keys: what is equal once, what differs twice. `item`: of a list. */
static enum aw_err diff_print(json_t *now, const json_t *wanted, uint32_t depth, bool item,
                              struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    const char *key;
    json_t *value;
    json_object_foreach(now, key, value)
    {
        json_t *other = json_object_get(wanted, key);
        const bool list = json_is_array(value);
        json_t *in = list ? json_array_get(value, 0) : value;
        const char *dash = item ? "- " : "";
        const int indent = (int)depth * 2 - (int)strlen(dash);
        item = false;
        if (json_is_object(in)) {
            printf(" %*s%s%s:\n", indent, "", dash, key);
            const json_t *to = list ? json_array_get(other, 0) : other;
            err = diff_print(in, to, depth + 1 + list, list, diag);
        } else if (json_equal(value, other)) {
            printf(" %*s%s%s: %s\n", indent, "", dash, key, json_string_value(value));
        } else {
            for (uint32_t side = 0; side < 2 && !err; side++) {
                json_t *leaf = json_object();
                json_object_set(leaf, key, side ? other : value);
                printf("%c%*s%s", side ? '+' : '-', indent, "", dash);
                err = aw_yaml_write(leaf, stdout);
                json_decref(leaf);
            }
        }
        if (err)
            break;
    }
    return err;
}

/* --- one object --- */

static enum aw_err target_get(struct view *view, const json_t *object, const char *ns,
                              json_t **ret_target, struct aw_diag *diag)
{
    const char *kind = aw_kube_text_at(object, "spec.scaleTargetRef.kind");
    const struct aw_kube_kind *known =
        !*kind || !strcmp(kind, aw_kube_deployments.kind) ? &aw_kube_deployments
        : !strcmp(kind, aw_kube_statefulsets.kind)        ? &aw_kube_statefulsets
                                                          : NULL;
    if (!known)
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "expected a Deployment or a StatefulSet as its target, found %s",
                       AW_QUOTE(kind));
    const struct aw_kube_ref ref = {
        .kind = known, .ns = ns, .name = aw_kube_text_at(object, "spec.scaleTargetRef.name")};
    enum aw_err err = aw_kube_get(view->kube, &ref, ret_target, NULL, diag);
    char version[AW_KUBE_NAME_MAX];
    if (err)
        return err;
    /* items of a list do not say what they are */
    json_object_set_new(*ret_target, "apiVersion",
                        json_string(aw_kube_api_version(known, version, sizeof version)));
    json_object_set_new(*ret_target, "kind", json_string(known->kind));
    return AW_OK;
}

static enum aw_err patch_tell(struct view *view, json_t *now, json_t *wanted, const char *why,
                              struct aw_diag *diag)
{
    const char *kind = aw_kube_text_at(wanted, "kind");
    const char *ns = aw_kube_text_at(wanted, "metadata.namespace");
    const char *name = aw_kube_text_at(wanted, "metadata.name");
    view->patched++;
    if (view->form == FORM_KUSTOMIZE) {
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);
        enum aw_err err = out ? aw_yaml_write(wanted, out) : AW_ERR_NOMEM;
        if (out && fclose(out) && !err)
            err = AW_ERR_NOMEM;
        if (!err)
            json_array_append_new(view->patches, json_pack("{s:{s:s, s:s}, s:s}", "target", "kind",
                                                           kind, "name", name, "patch", text));
        free(text);
        return err ? aw_fail(diag, err, "no memory for a patch") : AW_OK;
    }
    if (view->form == FORM_YAML) {
        printf("%s# %s/%s: %s\n", view->patched > 1 ? "---\n" : "", ns, name, why);
        return aw_yaml_write(wanted, stdout);
    }
    printf("--- %s/%s/%s\n+++ recommended: %s\n", ns, kind, name, why);
    return diff_print(json_object_get(now, "spec"), json_object_get(wanted, "spec"), 0, false,
                      diag);
}

static enum aw_err object_tell(struct view *view, const json_t *object, struct aw_diag *diag)
{
    struct aw_kube_meta meta;
    json_t *target = NULL, *now = NULL, *wanted = NULL;
    enum aw_err err = aw_kube_meta_read(object, &meta, diag);
    if (err || (view->name && strcmp(view->name, meta.name) != 0))
        return err;
    struct aw_diag why = {0};
    view->seen++;
    err = target_get(view, object, meta.ns, &target, &why);
    err = err ? err : aw_recommended_patch(object, target, &now, &wanted, &why);
    if (err) { /* of one; the others are told all the same */
        char text[AW_TEXT_MAX];
        fprintf(stderr, "aware: %s/%s: %s\n", meta.ns, meta.name,
                aw_diag_format(&why, err, text, sizeof text));
        err = AW_OK;
    } else if (wanted) {
        const char *said = aw_kube_text_at(object, "status.lastDecision.message");
        err = patch_tell(view, now, wanted, *said ? said : "recommended", diag);
    }
    json_decref(now);
    json_decref(wanted);
    json_decref(target);
    return err;
}

/* --- the verb --- */

static enum aw_err objects_tell(struct view *view, const char *ns, struct aw_diag *diag)
{
    const struct aw_kube_ref all = {.kind = &aw_mpa_kind, .ns = ns};
    json_t *list = NULL;
    enum aw_err err = aw_kube_get(view->kube, &all, &list, NULL, diag);
    const json_t *items = json_object_get(list, "items");
    for (size_t i = 0; !err && i < json_array_size(items); i++)
        err = object_tell(view, json_array_get(items, i), diag);
    json_decref(list);
    if (err)
        return err;
    if (view->name && !view->seen)
        return aw_fail(diag, AW_ERR_NOTFOUND, "no MultidimPodAutoscaler %s in %s",
                       AW_QUOTE(view->name), ns ? ns : "any namespace");
    if (view->form == FORM_KUSTOMIZE) {
        json_t *file = json_pack("{s:s, s:s, s:O}", "apiVersion", "kustomize.config.k8s.io/v1beta1",
                                 "kind", "Kustomization", "patches", view->patches);
        err = file ? aw_yaml_write(file, stdout) : AW_ERR_NOMEM;
        json_decref(file);
    }
    fprintf(stderr, "%" PRIu32 " of %" PRIu32 " autoscalers recommend a change\n", view->patched,
            view->seen);
    return err;
}

static enum aw_err recommend_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *ns = aw_args_text(run->args, "namespace");
    const char *form = aw_args_text(run->args, "output");
    struct view view = {.run = run, .name = run->args->positional[0], .patches = json_array()};
    struct aw_kube_config_from from = {.path = aw_args_text(run->args, "kubeconfig"),
                                       .context = aw_args_text(run->args, "context")};
    struct aw_kube_config config = {0};
    while (strcmp(forms[view.form], form) != 0)
        view.form++;
    enum aw_err err = AW_OK;
    if (ns && aw_args_given(run->args, "all-namespaces"))
        err = aw_fail(diag, AW_ERR_USAGE, "--namespace and --all-namespaces exclude each other");
    aw_kube_config_environment(&from);
    err = err ? err : aw_kube_config_load(&config, &from, NULL, diag);
    const struct aw_kube_options options = {.attempts_max = ATTEMPTS_MAX};
    err = err ? err : aw_kube_open(&view.kube, &config, &options, NULL, diag);
    if (!err && !ns && !aw_args_given(run->args, "all-namespaces"))
        ns = config.ns;
    err = err ? err : objects_tell(&view, ns, diag);
    aw_kube_close(view.kube);
    aw_kube_config_deinit(&config);
    json_decref(view.patches);
    return err;
}

static const struct aw_option recommend_options[] = {
    AW_OPTION(CHOICE, "output", 'o', "FORMAT", "diff",
              "diff, what would change; yaml, strategic merge patches; kustomize, a "
              "kustomization.yaml with them",
              .choices = forms),
    AW_OPTION(TEXT, "namespace", 'n', "NAME", NULL,
              "the namespace to look at (default: that of the context)"),
    AW_FLAG("all-namespaces", 'A', "look at all namespaces"),
    AW_OPTION(FILE, "kubeconfig", 0, "FILE", NULL,
              "the cluster and who to be (default: $KUBECONFIG, ~/.kube/config, or the pod's "
              "service account)"),
    AW_OPTION(TEXT, "context", 0, "NAME", NULL, "a context of the kubeconfig"),
    {.name = NULL},
};
static const struct aw_positional recommend_words[] = {
    {.name = "NAME",
     .kind = AW_ARG_TEXT,
     .help = "one autoscaler (default: all)",
     .optional = true},
    {.name = NULL},
};
static const struct aw_example recommend_examples[] = {
    {"aware recommend -n shop", "what would change, as a diff"},
    {"aware recommend -n shop storefront -o yaml >storefront-patch.yaml", "a patch to commit"},
    {"aware recommend -n shop -o kustomize >recommended/kustomization.yaml",
     "all of a namespace, for an overlay"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_recommend = {
    .name = "recommend",
    .summary = "Print what a cluster's autoscalers recommend, as patches for Git",
    .text =
        "Reads the status of MultidimPodAutoscalers, and the Deployments and StatefulSets that "
        "they name, and prints the fields of each template that would change: replicas, requests, "
        "and limits by the ratio that the template has. For teams that keep manifests in Git: "
        "nothing is written to the cluster. An autoscaler in mode Off recommends like any other. "
        "What cannot be told is said on stderr, object by object.",
    .options = recommend_options,
    .positionals = recommend_words,
    .examples = recommend_examples,
    .run = recommend_run,
};
