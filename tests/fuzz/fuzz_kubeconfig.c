/* fuzz_kubeconfig.c - any bytes as a kubeconfig, and as what an exec plugin prints. */
#include "fuzz.h"

#include "kube/config.h"
#include "kube/credential.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct aw_kube_config config;
    struct aw_kube_exec_answer answer = {0};
    struct aw_diag diag = {0};
    const char *bytes = (const char *)data;
    enum aw_err err = aw_kube_config_parse(&config, "/a/config", bytes, size, NULL, NULL, &diag);
    if (err) {
        check_refusal(&diag, err);
        AW_ASSERT(!config.server);
    } else {
        AW_ASSERT(!strncmp(config.server, "http", 4) && config.ns && config.source);
        AW_ASSERT(!(config.cert.bytes || config.cert.file) ==
                  !(config.key.bytes || config.key.file));
        AW_ASSERT(!config.exec.command || config.exec.api_version);
        AW_ASSERT(config.ca.len <= AW_KUBE_PEM_BYTES_MAX * 2);
        for (uint32_t i = 0; i < config.exec.env_count; i++)
            AW_ASSERT(strchr(config.exec.env[i], '='));
    }
    aw_kube_config_deinit(&config);
    err = aw_kube_exec_decode(bytes, size, "client.authentication.k8s.io/v1", NULL, &answer, &diag);
    if (err)
        check_refusal(&diag, err);
    else
        AW_ASSERT((answer.token || answer.cert) && !answer.cert == !answer.key);
    for (const char *at = answer.token; at && *at; at++) /* it becomes a header */
        AW_ASSERT((unsigned char)*at > ' ' && (unsigned char)*at < 0x7f);
    aw_kube_exec_answer_deinit(&answer, NULL);
    return 0;
}
