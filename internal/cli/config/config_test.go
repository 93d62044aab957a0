package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// read reads a text as the file DIR/c.yaml.
func read(t *testing.T, text string) (*File, string, error) {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Read(console.New(console.StdStreams()), name)
	return f, dir, err
}

const head = "apiVersion: rehearse-k8s.github.io/v1alpha1\nkind: Cluster\n"

// TestErrors: each mistake has the file, the line, the field and what to do, in one line.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown field":      {head + "spec:\n  ports: 1\n", ":4: spec.ports: unknown field; nearest names: port, "},
		"flag":               {head + "spec:\n  data-dir: x\n", ":4: spec.data-dir: unknown field; write dataDir"},
		"upper case":         {head + "spec:\n  etcdCaFile: x\n", ":4: spec.etcdCaFile: unknown field; nearest names: etcdCAFile"},
		"outside spec":       {head + "nodes: 3\n", ":3: nodes: unknown field; nearest names: "},
		"metadata":           {head + "metadata: {name: a, labels: {}}\n", ":3: metadata.labels: unknown field; nearest names: name"},
		"type of number":     {head + "spec: {nodes: many}\n", `:3: spec.nodes: "many": must be a whole number`},
		"fraction":           {head + "spec: {nodes: 1.5}\n", `:3: spec.nodes: 1.5: must be a whole number`},
		"type of list":       {head + "spec: {stages: a.yaml}\n", `:3: spec.stages: "a.yaml": must be a list of texts`},
		"empty list":         {head + "spec: {stages: []}\n", `:3: spec.stages: []: must be a list of texts, none of them empty`},
		"type of text":       {head + "spec: {dataDir: [a]}\n", `:3: spec.dataDir: ["a"]: must be a text`},
		"empty text":         {head + "spec: {dataDir: ''}\n", `:3: spec.dataDir: "": must be a text that is not empty; remove the field for the default`},
		"type of truth":      {head + "spec: {detach: 1}\n", `:3: spec.detach: 1: must be true or false`},
		"type of duration":   {head + "spec: {nodeLeaseDuration: 40}\n", `:3: spec.nodeLeaseDuration: 40: must be a duration such as 40s`},
		"type of spec":       {head + "spec: 3\n", ":3: spec: must be an object"},
		"all at once":        {head + "spec:\n  nodes: x\n  port: y\n", `:4: spec.nodes: "x": must be a whole number; `},
		"twice":              {head + "spec:\n  nodes: 1\n  nodes: 2\n", `:5: key "nodes" already set in map`},
		"no YAML":            {head + "spec: {\n", ":3: yaml: "},
		"second document":    {head + "---\n" + head + "---\n" + head, ":3: is a second Cluster; the first is in line 1"},
		"later document":     {"# comment\n---\n# another\n" + head + "spec:\n  nodse: 1\n", ":7: spec.nodse: unknown field; nearest names: nodes, "},
		"version":            {"apiVersion: rehearse-k8s.github.io/v1\nkind: Cluster\n", `:1: apiVersion: "rehearse-k8s.github.io/v1": must be rehearse-k8s.github.io/v1alpha1 for kind Cluster`},
		"no version":         {"kind: Cluster\n", `:1: apiVersion: "": must be rehearse-k8s.github.io/v1alpha1`},
		"nothing":            {"# nothing\n", ":1: contains no Cluster of apiVersion rehearse-k8s.github.io/v1alpha1"},
		"other kind":         {"apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\n", "; it contains Cluster (kind.x-k8s.io/v1alpha4)"},
		"KWOK: not a scalar": {kwokctl + "  bindAddress: [a]\n", `:4: options.bindAddress: ["a"]: must be a text or a number`},
		"KWOK: no options":   {strings.Replace(kwokctl, "options:", "options: 3", 1), ":1: options: must be an object"},
	} {
		_, _, err := read(t, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || console.ExitCode(err) != console.ExitUsage {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

const kwokctl = "apiVersion: config.kwok.x-k8s.io/v1alpha1\nkind: KwokctlConfiguration\noptions:\n"

// upFlags are some flags like those of up.
func upFlags() *pflag.FlagSet {
	f := pflag.NewFlagSet("up", pflag.ContinueOnError)
	f.String("name", "rehearse", "")
	f.Int("port", 0, "")
	f.Int("nodes", 3, "")
	f.StringSlice("stages", nil, "")
	f.StringSlice("feature-gates", nil, "")
	f.StringSlice("runtime-config", nil, "")
	f.String("scheduler-config", "", "")
	f.String("bind-address", "127.0.0.1", "")
	f.String("data-dir", "", "")
	f.String("kubeconfig", "", "")
	f.Duration("node-lease-duration", 40*time.Second, "")
	f.Bool("detach", false, "")
	return f
}

// changed are the values of the flags that count as given.
func changed(f *pflag.FlagSet) map[string]string {
	out := map[string]string{}
	f.Visit(func(f *pflag.Flag) { out[f.Name] = f.Value.String() })
	return out
}

// TestApply: fields set flags, flags of the command line stay, paths are relative to the file, and null is not a value.
func TestApply(t *testing.T) {
	file, dir, err := read(t, head+`metadata: {name: demo}
spec:
  nodes: 0
  port: 7000
  stages: [builtin:pod-fast, stages/a.yaml, /abs.yaml]
  dataDir: data
  detach: true
  kubeconfig: null
  nodeLeaseDuration: 0s
`)
	if err != nil {
		t.Fatal(err)
	}
	flags := upFlags()
	if err := flags.Parse([]string{"--port", "6443"}); err != nil {
		t.Fatal(err)
	}
	places, err := file.Apply(flags)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"name": "demo", "nodes": "0", "port": "6443", "data-dir": dir + "/data", "detach": "true", "node-lease-duration": "0s",
		"stages": "[builtin:pod-fast," + dir + "/stages/a.yaml,/abs.yaml]",
	}
	if diff := cmp.Diff(want, changed(flags)); diff != "" {
		t.Error(diff)
	}
	if file.HasStages || len(file.Warnings) > 0 {
		t.Errorf("%+v", file)
	}
	if err := places.Explain(console.Usagef("--nodes 0: too few")); !strings.HasSuffix(err.Error(), "c.yaml:5: spec.nodes: --nodes 0: too few") {
		t.Error(err)
	}
	for _, text := range []string{"--port 6443: taken", "other", "--"} {
		if err := places.Explain(console.Usagef("%s", text)); err.Error() != text {
			t.Errorf("%q became %q", text, err)
		}
	}
}

// TestMixed: of KWOK's files, up uses the options that it has; it names the rest in one warning for each kind; a Cluster in the
// same file overrides them.
func TestMixed(t *testing.T) {
	file, dir, err := read(t, `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options: {nodeLeaseDurationSeconds: 200, manageAllNodes: true, cidr: 10.0.0.1/24}
tracing: {endpoint: "localhost:1"}
---
`+kwokctl+`  bindAddress: 0.0.0.0
  kubeApiserverPort: 6443
  kubeFeatureGates: A=true,B=false
  kubeRuntimeConfig: api/all=true
  kubeSchedulerConfig: scheduler.yaml
  runtime: binary
components: [{name: x}]
---
`+kwokctl+`  etcdPort: 1
---
`+head+`spec: {port: 1234}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: a}
`)
	if err != nil {
		t.Fatal(err)
	}
	flags := upFlags()
	if _, err := file.Apply(flags); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"bind-address": "0.0.0.0", "port": "1234", "feature-gates": "[A=true,B=false]", "runtime-config": "[api/all=true]",
		"scheduler-config": dir + "/scheduler.yaml", "node-lease-duration": "3m20s",
	}
	if diff := cmp.Diff(want, changed(flags)); diff != "" {
		t.Error(diff)
	}
	name := filepath.Join(dir, "c.yaml")
	warnings := []string{
		"KwokConfiguration in " + name + ":1: up does not use options.cidr, options.manageAllNodes, tracing",
		"KwokctlConfiguration in " + name + ":5: up does not use components, options.etcdPort, options.runtime",
		"StorageClass (storage.k8s.io/v1) in " + name + ":25: has no effect in a file of --config; create it in the cluster: rehearse kubectl apply -f FILE",
	}
	if diff := cmp.Diff(warnings, file.Warnings); diff != "" || !file.HasStages {
		t.Errorf("stages %t\n%s", file.HasStages, diff)
	}
}
