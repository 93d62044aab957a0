package rules

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// load adds the documents of a text, which are separated by "---" lines.
func load(t *testing.T, text string) *Set {
	t.Helper()
	s := &Set{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		if !IsRule([]byte(document)) {
			t.Fatalf("no rule: %s", document)
		}
		if err := s.Add("rules.yaml", []byte(document)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

const logs = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: shop}
spec:
  selector: {matchNamespaces: [shop]}
  logs:
  - {logsFile: rest}
  - {containers: [web, api], logsFile: web}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: exact}
spec:
  selector: {matchNamespaces: [shop, bank], matchNames: [a, b]}
  logs:
  - {containers: [vault], logsFile: vault}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: all}
spec:
  selector: {}
  logs:
  - {containers: [side], logsFile: side}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Logs
metadata: {name: a, namespace: shop}
spec:
  logs:
  - {containers: [web], logsFile: own}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Logs
metadata: {name: a}
spec:
  logs:
  - {logsFile: default}
`

// TestSelection: the namespaced object of a pod is the only one asked, then the Cluster kinds in order; a named container wins.
func TestSelection(t *testing.T) {
	s := load(t, logs)
	for _, c := range []struct{ namespace, pod, container, want string }{
		{"shop", "a", "web", "own"},
		{"shop", "a", "api", "Logs shop/a of file rules.yaml has no entry for container \"api\""},
		{"shop", "b", "web", "web"},
		{"shop", "b", "api", "web"},
		{"shop", "b", "vault", "rest"}, // an earlier object for all containers precedes a later exact one
		{"bank", "b", "vault", "vault"},
		{"bank", "c", "vault", ""},
		{"bank", "c", "side", "side"},
		{"default", "a", "x", "default"},
		{"default", "b", "x", ""},
	} {
		m, err := Log(s.Logs, c.namespace, c.pod, c.container)
		got := ""
		if err != nil {
			got = err.Error()
		} else if m != nil {
			got = m.Entry.LogsFile
		}
		if got != c.want {
			t.Errorf("%s/%s %s: got %q, want %q", c.namespace, c.pod, c.container, got, c.want)
		}
	}
	_, err := Log(s.Logs, "shop", "a", "api")
	if missing := (*NoEntryError)(nil); !errors.As(err, &missing) {
		t.Errorf("got %T", err)
	}
}

// TestEveryKind: each kind is decoded into its part of the set.
func TestEveryKind(t *testing.T) {
	s := load(t, `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Attach
metadata: {name: a, namespace: x}
spec: {attaches: [{containers: [c], logsFile: f}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterAttach
metadata: {name: a}
spec: {attaches: [{logsFile: g}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Exec
metadata: {name: a, namespace: x}
spec: {execs: [{local: {workDir: /tmp, envs: [{name: A, value: b}], securityContext: {runAsUser: 1, runAsGroup: 2}}}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterExec
metadata: {name: a}
spec: {execs: [{local: {}}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: PortForward
metadata: {name: a, namespace: x}
spec: {forwards: [{ports: [80], command: [cat]}, {target: {port: 8080, address: localhost}}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterPortForward
metadata: {name: a}
spec: {forwards: [{ports: [80], target: {port: 1, address: "::1"}}]}
`)
	a, err := Attach(s.Attaches, "x", "a", "c")
	if err != nil || a.Entry.LogsFile != "f" {
		t.Errorf("attach: %+v %v", a, err)
	}
	e, err := Exec(s.Execs, "y", "a", "c")
	if err != nil || e.Object.Kind != "ClusterExec" || e.Entry.Local == nil {
		t.Errorf("exec: %+v %v", e, err)
	}
	f, err := PortForward(s.Forwards, "x", "a", 80)
	if err != nil || !cmp.Equal(f.Entry.Command, []string{"cat"}) {
		t.Errorf("port 80: %+v %v", f, err)
	}
	if f, err = PortForward(s.Forwards, "x", "a", 81); err != nil || f.Entry.Target.Port != 8080 {
		t.Errorf("port 81: %+v %v", f, err)
	}
	if f, err = PortForward(s.Forwards, "y", "a", 81); err != nil || f != nil {
		t.Errorf("port 81 of another pod: %+v %v", f, err)
	}
	if s.Empty() || !(&Set{}).Empty() {
		t.Error("Empty is wrong")
	}
}

// TestUsages: the ResourceUsage of a pod is the only object asked, then the Cluster kind in order.
func TestUsages(t *testing.T) {
	s := load(t, `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterResourceUsage
metadata: {name: web}
spec:
  selector: {matchNamespaces: [shop]}
  usages: [{containers: [web], usage: {cpu: {value: 100m}, memory: {value: 1024}}}]
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterResourceUsage
metadata: {name: all}
spec:
  usages: [{usage: {cpu: {expression: 'Quantity("1m")'}}}]
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ResourceUsage
metadata: {name: a, namespace: shop}
spec:
  usages: [{containers: [vault], usage: {cpu: {value: 1}}}]
`)
	usages := NewUsages(s.Usages)
	for _, c := range []struct{ namespace, pod, container, want string }{
		{"shop", "a", "vault", "ResourceUsage shop/a of file rules.yaml"},
		{"shop", "a", "web", ""},
		{"shop", "b", "web", "ClusterResourceUsage web of file rules.yaml"},
		{"shop", "b", "vault", "ClusterResourceUsage all of file rules.yaml"},
		{"bank", "a", "web", "ClusterResourceUsage all of file rules.yaml"},
	} {
		got := ""
		if m := usages.Of(c.namespace, c.pod, c.container); m != nil {
			got = m.Object.String()
		}
		if got != c.want {
			t.Errorf("%s/%s %s: got %q, want %q", c.namespace, c.pod, c.container, got, c.want)
		}
	}
	if NewUsages(nil).Of("shop", "a", "web") != nil || s.Empty() {
		t.Error("an empty set has an entry, or a set with usages is empty")
	}
}

// TestInvalid: each invalid object gives one line that names the object, the field and the reason.
func TestInvalid(t *testing.T) {
	object := func(kind, spec string) string {
		return "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: " + kind + "\nmetadata: {name: a}\nspec: " + spec
	}
	for _, c := range []struct{ document, want string }{
		{object("Logs", "{logs: [{logFile: x}]}"), `Logs a: unknown field "spec.logs[0].logFile"`},
		{object("Logs", "{logs: [{}]}"), "Logs a: spec.logs[0].logsFile: Required value: name a file"},
		{object("Logs", "{logs: []}"), "spec.logs: Required value"},
		{object("ClusterAttach", "{attaches: [{containers: [a]}]}"), "spec.attaches[0].logsFile: Required value"},
		{object("Exec", "{execs: [{}]}"), "spec.execs[0].local: Required value"},
		{object("Exec", "{execs: [{local: {envs: [{value: x}]}}]}"), "spec.execs[0].local.envs[0].name: Invalid value"},
		{object("Exec", "{execs: [{local: {securityContext: {runAsUser: -1}}}]}"), "securityContext.runAsUser: Invalid value: -1"},
		{object("PortForward", "{forwards: [{ports: [80]}]}"), "spec.forwards[0].target: Required value"},
		{object("PortForward", "{forwards: [{ports: [0], command: [a]}]}"), "spec.forwards[0].ports[0]: Invalid value: 0"},
		{object("PortForward", "{forwards: [{target: {port: 70000, address: a}}]}"), "spec.forwards[0].target.port: Invalid value: 70000"},
		{object("PortForward", "{forwards: [{target: {port: 1}}]}"), "spec.forwards[0].target.address: Required value"},
		{object("ResourceUsage", "{usages: [{}]}"), "ResourceUsage a: spec.usages[0].usage: Required value: name a resource"},
		{object("ResourceUsage", "{usages: [{usage: {cpu: {}}}]}"), "spec.usages[0].usage[cpu].value: Required value: set value or expression"},
		{object("ResourceUsage", "{usages: [{usage: {cpu: {value: -1}}}]}"), "spec.usages[0].usage[cpu].value: Invalid value: \"-1\""},
		{object("ResourceUsage", "{usages: [{usage: {cpu: {value: much}}}]}"), "ResourceUsage a: "},
		{object("ClusterResourceUsage", "{usages: [{usage: {'a b': {value: 1}}}]}"), "spec.usages[0].usage[a b]: Invalid value"},
		{object("ClusterResourceUsage", "{usages: [{usage: {memory: {expression: '1 +'}}}]}"), "spec.usages[0].usage[memory].expression: Invalid value: \"1 +\": Syntax error"},
		{object("Metric", "{metrics: []}"), "Metric a: spec.path: Required value: name a path that begins with /metrics"},
		{object("Metric", "{path: /metrics/a, metrics: []}"), "Metric a: spec.metrics: Required value: the object has no metric"},
		{object("Metric", "{path: /metrics/a, metrics: [{name: a, kind: gauge, valeu: '1'}]}"), `Metric a: unknown field "spec.metrics[0].valeu"`},
		{object("Metric", "{path: /metrics/a, metrics: [{name: a, kind: gauge, value: '1 +'}]}"), "spec.metrics[0].value: Invalid value: \"1 +\": Syntax error"},
		{object("Logs", "{logs: 1}"), "Logs a: "},
		{"apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Logs\nspec: {logs: [{logsFile: a}]}", "metadata.name: Required value"},
		{object("Logs", "{logs: [{logsFile: a}]}\nspec: {}"), `key "spec" already set`},
	} {
		s := &Set{}
		err := s.Add("f.yaml", []byte(c.document))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || !s.Empty() {
			t.Errorf("%s\ngot  %v\nwant %s", c.document, err, c.want)
		}
	}
	s := load(t, strings.TrimSpace(object("Logs", "{logs: [{logsFile: a}]}")))
	if err := s.Add("g.yaml", []byte(object("Logs", "{logs: [{logsFile: a}]}"))); err == nil || !strings.Contains(err.Error(), "is in file rules.yaml") {
		t.Errorf("the same object twice: %v", err)
	}
	if err := s.AddObject([]byte(`{"kind":"Logs","metadata":{"name":"b"},"spec":{"logs":[{"future":1}]}}`)); err != nil || len(s.Logs) != 2 {
		t.Errorf("a stored object with an unknown field and no file: %v", err)
	}
	metric := object("Metric", "{path: /metrics/a, metrics: [{name: a, kind: gauge, value: '1'}]}")
	if err := s.Add("f.yaml", []byte(metric)); err != nil || len(s.Metrics) != 1 || s.Metrics[0].String() != "Metric a of file f.yaml" {
		t.Errorf("Metric: %v %v", s.Metrics, err)
	}
	if err := s.Add("g.yaml", []byte(metric)); err == nil || !strings.Contains(err.Error(), "Metric a: another object of this kind and name is in file f.yaml") {
		t.Errorf("the same Metric twice: %v", err)
	}
	if err := s.AddObject([]byte(`{"kind":"Metric","metadata":{"name":"b"},"spec":{"path":"x"}}`)); err != nil || len(s.Metrics) != 2 || s.Metrics[1].String() != "Metric b" {
		t.Errorf("an invalid stored Metric: %v %v", s.Metrics, err)
	}
	if err := s.AddObject([]byte(`{"kind":"Stage","metadata":{"name":"b"}}`)); err == nil {
		t.Error("a Stage is accepted")
	}
	if IsRule([]byte("apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage")) || IsRule([]byte("a: [")) || IsRule(nil) {
		t.Error("IsRule accepts another kind")
	}
}
