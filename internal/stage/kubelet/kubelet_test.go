package kubelet

import "testing"

// TestKubeletStepOf: comments do not keep a template that only calls Kubelet from running without rendering;
// anything else does.
func TestKubeletStepOf(t *testing.T) {
	for template, want := range map[string]bool{
		`{{ Kubelet "create" . }}`:                                   true,
		"{{ Kubelet \"create\" . }}\n":                               true,
		"# ours\n\n{{Kubelet \"create\" .}}\n# more\n":               true,
		"{{/* ours */}}\n{{ Kubelet \"create\" . }}\n":               true,
		"# {{ .x }}\n{{ Kubelet \"create\" . }}\n":                   false,
		"{{ Kubelet \"create\" . }}\nphase: Running\n":               false,
		"{{ Kubelet \"create\" . }}{{ .x }}":                         false,
		"{{/* a */}}{{ .x }}{{/* b */}}\n{{ Kubelet \"create\" . }}": false,
		`{{ Kubelet "nothing" . }}`:                                  false,
		`{{ Kubelet "create" .spec }}`:                               false,
		"":                                                           false,
	} {
		if got := StepOf(template) != nil; got != want {
			t.Errorf("%q: step found: %v, want %v", template, got, want)
		}
	}
}
