{{- define "aware.labels" -}}
app.kubernetes.io/name: aware
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "aware.selector" -}}
app.kubernetes.io/name: aware
app.kubernetes.io/component: controller
{{- end }}
