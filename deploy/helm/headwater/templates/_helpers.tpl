{{/* Names and labels that several files share. */}}
{{- define "headwater.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "headwater.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "headwater.labels" -}}
{{ include "headwater.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "headwater.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "headwater.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "headwater.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* headwater.toml: what the release sets, and where its pods listen and write. */}}
{{- define "headwater.toml" -}}
{{- $metrics := dict "capture" (printf "0.0.0.0:%d" (int .Values.capture.port)) "apply" (printf "0.0.0.0:%d" (int .Values.apply.port)) -}}
{{- $own := dict "metrics" $metrics "apply" (dict "state" "/var/lib/headwater") -}}
{{- if .Values.serve.enabled -}}
{{- $_ := set $metrics "serve" (printf "0.0.0.0:%d" (int .Values.serve.metricsPort)) -}}
{{- $_ := set $own "serve" (include "headwater.serve" . | fromYaml) -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.config) $own | toToml -}}
{{- end -}}

{{/* What the chart sets of [serve]. Clients reach it by the names of its Service, by that of the Ingress,
and through `kubectl port-forward`. The spool is its own folder: a volume's root belongs to root. */}}
{{- define "headwater.serve" -}}
{{- $given := .Values.config.serve | default dict -}}
{{- $name := printf "%s-serve" (include "headwater.name" .) -}}
{{- $hosts := list "localhost" $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- with .Values.serve.ingress -}}{{- if .enabled -}}{{- $hosts = append $hosts .host -}}{{- end -}}{{- end -}}
listen: {{ printf "0.0.0.0:%d" (int .Values.serve.port) | quote }}
hosts: {{ concat $hosts ($given.hosts | default list) | uniq | toJson }}
users: /run/secrets/headwater-serve/users.toml
spool: /var/lib/headwater-serve/spool
{{- if .Values.serve.tls.existingSecret }}
tls_certificate: /run/secrets/headwater-serve/tls.crt
tls_key: /run/secrets/headwater-serve/tls.key
{{- end }}
{{- end -}}

{{/* Whom a pod runs as. The state database refuses a folder that its group may write: the volume's
group is set once, not at each start. */}}
{{- define "headwater.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "headwater.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* What a pod starts again for. A view that is added needs no start: apply reads the file again. */}}
{{- define "headwater.checksum" -}}
{{- omit .Values.config "views" | toToml | sha256sum -}}
{{- end -}}

{{/* Of the pod that serve runs in, which reads the file once. */}}
{{- define "headwater.checksumOfApply" -}}
{{- if .Values.serve.enabled -}}
{{- include "headwater.toml" . | sha256sum -}}
{{- else -}}
{{- include "headwater.checksum" . -}}
{{- end -}}
{{- end -}}

{{- define "headwater.environment" -}}
{{- range .Values.secrets }}
- name: {{ .variable }}_FILE
  value: /run/secrets/headwater/{{ .variable }}
{{- end }}
{{- end -}}

{{- define "headwater.mounts" -}}
- name: config
  mountPath: /etc/headwater
  readOnly: true
{{- if .Values.secrets }}
- name: secrets
  mountPath: /run/secrets/headwater
  readOnly: true
{{- end }}
- name: tmp
  mountPath: /tmp
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "headwater.volumes" -}}
- name: config
  configMap:
    name: {{ include "headwater.name" . }}
{{- if .Values.secrets }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range .Values.secrets }}
      - secret:
          name: {{ .existingSecret }}
          items:
            - key: {{ .key }}
              path: {{ .variable }}
      {{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Live: its loop moves. Ready: it does its work; while a server is away it is live, not ready. Given
the name of the port. */}}
{{- define "headwater.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: {{ . }}}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: {{ . }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: {{ . }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
{{- end -}}
