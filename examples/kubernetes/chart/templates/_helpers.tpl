{{- define "gorun.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 }}{{ end }}
{{- end }}

{{- define "gorun.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gorun.labels" -}}
{{ include "gorun.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "gorun.slots" -}}
{{ index (.Values.resources.worker.limits | default dict) "nvidia.com/gpu" | default .Values.worker.slots }}
{{- end }}

{{- define "gorun.knownHosts" -}}
{{ $pattern := eq (int .Values.ssh.port) 22 | ternary "*.%s" (printf "[*.%%s]:%v" .Values.ssh.port) -}}
{{ $name := include "gorun.name" . -}}
{{ printf $pattern $name }},{{ printf $pattern (printf "%s.*" $name) }}
{{- end }}

{{- /* A key as ssh-keygen wrote it: helm --set may have got it with blanks before each line. */ -}}
{{- define "gorun.key" -}}
{{ regexReplaceAll "(?m)^[ \t]+" . "" | trim }}{{ "\n" }}
{{- end }}

{{- define "gorun.image" -}}
image: {{ printf "%s:%s" .repository (.tag | toString) | quote }}
imagePullPolicy: {{ .pullPolicy }}
{{- end }}

{{- define "gorun.env" -}}
{{- range $name, $value := . }}
- {name: {{ $name | quote }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end }}

{{- define "gorun.mounts" -}}
- {name: generated, mountPath: /horovod/generated, readOnly: true}
- {name: generated, mountPath: /etc/ssh/ssh_config, subPath: ssh_config, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if .Values.ssh.useSecret }}
- {name: keys, mountPath: {{ .Values.home }}/.ssh, readOnly: true}
{{- end }}
{{- if .Values.datasetPvc.enabled }}
- {name: dataset, mountPath: {{ .Values.datasetPvc.mountPath }}}
{{- end }}
{{- end }}

{{- define "gorun.volumes" -}}
- name: generated
  configMap: {name: {{ include "gorun.name" . }}, defaultMode: 0555}
- {name: tmp, emptyDir: {}}
{{- if .Values.ssh.useSecret }}
- name: keys
  secret: {secretName: {{ include "gorun.name" . }}, defaultMode: 0440}
{{- end }}
{{- if .Values.datasetPvc.enabled }}
- name: dataset
  persistentVolumeClaim: {claimName: {{ .Values.datasetPvc.existingClaim | default (printf "%s-dataset" (include "gorun.name" .)) }}}
{{- end }}
{{- end }}
