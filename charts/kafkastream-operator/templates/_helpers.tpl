{{- define "operator.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The name of objects outside of the release's namespace, but for the rights of what it serves. */}}
{{- define "operator.clusterName" -}}
{{- printf "%s.%s" (include "operator.name" .) .Release.Namespace -}}
{{- end -}}

{{- define "operator.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "operator.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: name the account that the operator runs with, or set serviceAccount.create" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "operator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "operator.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "operator.subject" -}}
- kind: ServiceAccount
  name: {{ include "operator.account" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* The security settings of every container. */}}
{{- define "operator.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "operator.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* What the operator may do in each namespace that it serves. docs/reference/operator.md has the reason of each verb. */}}
{{- define "operator.rules" -}}
- apiGroups: [kafkastream.dev]
  resources: [kafkastreams]
  verbs: [get, list, watch]
- apiGroups: [kafkastream.dev]
  resources: [kafkastreamsubscriptions]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [kafkastream.dev]
  resources: [kafkastreams/status, kafkastreamsubscriptions/status]
  verbs: [update]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, update, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
- apiGroups: [sparkoperator.k8s.io, spark.apache.org]
  resources: [sparkapplications]
  verbs: [get, list, watch, patch]
{{- end -}}
