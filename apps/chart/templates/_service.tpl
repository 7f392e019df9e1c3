{{/* One Service: (dict "service" SERVICE "name" NAME "type" TYPE "ports" PORTS) */}}
{{- define "application.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  labels:
    {{- toYaml .service.labels | nindent 4 }}
spec:
  type: {{ .type }}
  selector:
    {{- toYaml .service.labels | nindent 4 }}
  ports:
    {{- range .ports }}
    - name: {{ .name | quote }}
      port: {{ .port }}
      targetPort: {{ .target_port }}
      protocol: {{ .protocol }}
    {{- end }}
{{- end -}}
