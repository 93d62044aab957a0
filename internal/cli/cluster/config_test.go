package cluster

import (
	"bytes"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/cli/config"
)

// runUp runs up with these arguments and returns its output.
func runUp(t *testing.T, args ...string) string {
	t.Helper()
	a := testApp(t)
	var out bytes.Buffer
	a.Out = &out
	cmd := a.upCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	if err := cmd.Execute(); err != nil {
		t.Fatalf("up %s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// TestEveryFlagHasAField: the kind Cluster covers all flags of up, except for those that are about the file itself.
func TestEveryFlagHasAField(t *testing.T) {
	var flags []string
	testApp(t).upCommand().Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	left := slices.Clone(flags)
	for f := range reflect.TypeFor[v1alpha1.ClusterSpec]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		flag := config.FlagName(name, flags)
		if flag == "" {
			t.Errorf("field spec.%s: up has no such flag", name)
		}
		left = slices.DeleteFunc(left, func(n string) bool { return n == flag })
	}
	if want := []string{"config", "name", "print-config", "ready-fd", "resume"}; !slices.Equal(left, want) {
		t.Errorf("flags without a field: %q, want %q", left, want)
	}
}

// TestPrintConfig: for each flag, --print-config shows its value, and prints the same when it reads its own output.
func TestPrintConfig(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	writeFile(t, file, "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n") // also a snapshot
	stages := filepath.Join(dir, "stages.yaml")
	writeFile(t, stages, "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: a}\n")
	with := func(args ...string) []string { return append(args, "--etcd-servers=http://a:1,http://b:2") }
	cases := map[string][]string{
		"name":                {"--name=other"},
		"nodes":               {"--nodes=0"},
		"kubeconfig":          {"--kubeconfig=" + file},
		"from":                {"--from=" + file},
		"data-dir":            {"--data-dir=" + filepath.Join(dir, "data")},
		"etcd-servers":        with(),
		"etcd-cafile":         with("--etcd-cafile=" + file),
		"etcd-certfile":       with("--etcd-certfile="+file, "--etcd-keyfile="+file),
		"bind-address":        {"--bind-address=::1"},
		"port":                {"--port=6443"},
		"controllers":         {"--controllers=*,-job"},
		"stages":              {"--stages=builtin:pod-general," + stages},
		"metrics-address":     {"--metrics-address=127.0.0.1:8080"},
		"feature-gates":       {"--feature-gates=A=true,B=false"},
		"runtime-config":      {"--runtime-config=a/v1=true"},
		"admission-plugins":   {"--admission-plugins=A,-B"},
		"audit-policy":        {"--audit-policy=" + file, "--audit-log=" + file},
		"service-cidr":        {"--service-cidr=10.0.0.0/16"},
		"scheduler-config":    {"--scheduler-config=" + file},
		"node-lease-duration": {"--node-lease-duration=0"},
		"hpa-sync-period":     {"--hpa-sync-period=1s"},
		"detach":              {"--detach"},
		"timeout":             {"--timeout=5s"},
		"verbosity":           {"-v3"},
		"log-format":          {"--log-format=json"},
	}
	byDefault := runUp(t, "--print-config")
	testApp(t).upCommand().Flags().VisitAll(func(f *pflag.Flag) {
		_, ok := cases[f.Name]
		if !ok && !slices.Contains([]string{"config", "print-config", "ready-fd", "resume", "etcd-keyfile", "audit-log"}, f.Name) {
			t.Errorf("flag --%s has no case", f.Name)
		}
	})
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			printed := runUp(t, append(args, "--print-config")...)
			if printed == byDefault {
				t.Errorf("the output does not depend on the flag:\n%s", printed)
			}
			path := filepath.Join(t.TempDir(), "c.yaml")
			writeFile(t, path, printed)
			if again := runUp(t, "--config", path, "--print-config"); again != printed {
				t.Errorf("printed:\n%s\nread and printed again:\n%s", printed, again)
			}
		})
	}
}

// TestChildArgsOfConfig: the process in the background gets the values of the file as flags, and does not read it.
func TestChildArgsOfConfig(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	writeFile(t, path, `apiVersion: rehearse-k8s.github.io/v1alpha1
kind: Cluster
metadata: {name: demo}
spec: {nodes: 5, detach: true, dataDir: d, stages: [builtin:node-fast]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: a}
`)
	a := testApp(t)
	cmd := a.upCommand()
	if err := cmd.ParseFlags([]string{"--config", path, "--nodes=7"}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.readConfig(cmd, &upOptions{config: path}); err != nil {
		t.Fatal(err)
	}
	want := "up --data-dir=" + dir + "/d --name=demo --nodes=7 --stages=builtin:node-fast," + path
	if got := strings.Join(childArgs(cmd), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
