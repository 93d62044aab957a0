package stagefiles

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rehearse-k8s/rehearse/stage"
)

// write writes files below a new directory and returns the directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const storageClass = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\n"
const logs = "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterLogs\nmetadata: {name: a}\nspec: {logs: [{logsFile: /a}]}\n"

// TestExpand: directories as in KWOK's repository. A kustomization lists the files of its directory, and others.
func TestExpand(t *testing.T) {
	dir := write(t, map[string]string{
		"fast/kustomization.yaml":        "resources:\n- ../node\n- ../volume/fast\n- ../one.yaml\n",
		"node/node.yaml":                 "",
		"node/testdata/node.input.yaml":  "",
		"volume/fast/kustomization.yml":  "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [storage-class.yaml, pv.yaml]\n",
		"volume/fast/unlisted.yaml":      "",
		"volume/fast/pv.yaml":            "",
		"volume/fast/storage-class.yaml": "",
		"one.yaml":                       "",
		"circle/kustomization.yaml":      "resources: [../circle]\n",
		"missing/kustomization.yaml":     "resources: [absent.yaml]\n",
		"broken/kustomization.yaml":      "resources: {}\n",
		"empty/README.md":                "",
		"patched/Kustomization":          "resources: [../one.yaml]\npatches: [{path: a.yaml}]\n",
		"two/Kustomization":              "resources: [../one.yaml]\n",
		"two/kustomization.yml":          "resources: [../one.yaml]\n",
		"none/kustomization.yaml":        "kind: Kustomization\n",
		"none/stage.yaml":                "",
	})
	got, err := Expand([]string{"builtin:pod-fast", filepath.Join(dir, "fast")})
	want := []string{"builtin:pod-fast"}
	for _, name := range []string{"node/node.yaml", "volume/fast/storage-class.yaml", "volume/fast/pv.yaml", "one.yaml"} {
		want = append(want, filepath.Join(dir, name))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for name, want := range map[string]string{
		"circle":  "do they refer to each other?",
		"missing": `resources: "absent.yaml" is neither a file nor a directory here`,
		"broken":  "kustomization.yaml: error unmarshaling JSON",
		"patched": `Kustomization: error unmarshaling JSON: while decoding JSON: json: unknown field "patches"; only resources are read: to use more of a kustomization, build it (kubectl kustomize DIRECTORY > FILE) and pass FILE`,
		"two":     "two: the directory has two kustomizations, Kustomization and kustomization.yml; remove one",
		"none":    "kustomization.yaml: it lists no resources",
		"empty":   "the directory contains no .yaml, .yml or .json file",
	} {
		if _, err := Expand([]string{filepath.Join(dir, name)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestSplit: objects are separated by what they are for, and the lines of stages keep their numbers.
func TestSplit(t *testing.T) {
	config := strings.Replace(storageClass, "storage.k8s.io/v1\nkind: StorageClass", "config.kwok.x-k8s.io/v1alpha1\nkind: KwokConfiguration", 1)
	metric := "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Metric\nmetadata: {name: a}\nspec: {path: /metrics/a, metrics: [{name: a, kind: gauge, value: '1'}]}\n"
	files := []stage.File{
		{Name: "logs", Data: []byte("# only logs\n---\n" + logs)},
		{Name: "both", Data: []byte(logs + "---\nkind: Stage\n---\n" + storageClass + "---\n" + storageClass)},
		{Name: "others", Data: []byte(storageClass + "---\n" + config + "---\n" + metric)},
		{Name: "bad", Data: []byte(logs + "---\n" + logs)},
	}
	c := Split(files...)
	want := []stage.File{{Name: "both", Data: []byte("\n\n\n\n---\nkind: Stage\n---\n\n\n\n---\n\n\n\n")}}
	if diff := cmp.Diff(want, c.Stages); diff != "" {
		t.Error(diff)
	}
	ignored := []Kind{
		{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass", Count: 3, File: "both", Line: 7},
		{APIVersion: "config.kwok.x-k8s.io/v1alpha1", Kind: "KwokConfiguration", Count: 1, File: "others", Line: 4},
	}
	if diff := cmp.Diff(ignored, c.Ignored); diff != "" {
		t.Error(diff)
	}
	if len(c.RuleKinds) != 2 || c.RuleKinds[0].Count != 4 || len(c.Rules.Logs) != 1 || c.RuleKinds[1].Kind != "Metric" || len(c.Rules.Metrics) != 1 {
		t.Errorf("%+v, %+v", c.RuleKinds, c.Rules)
	}
	if err := c.Err(); err == nil || !strings.HasPrefix(err.Error(), "both:1: ClusterLogs a: another object of this kind and name") || len(c.Errors) != 3 {
		t.Errorf("%v", c.Errors)
	}
	if got, want := c.Ignored[0].Warning(), "StorageClass (storage.k8s.io/v1), 3 objects, the first in both:7: has no effect in a file of stages; create it in the cluster: rehearse kubectl apply -f FILE"; got != want {
		t.Errorf("warning %q, want %q", got, want)
	}
}

// TestSplitKeepsMistakes: a mistake in the kind or the version of a stage does not make it an ignored object, and files in
// which nothing applies are left to their reader.
func TestSplitKeepsMistakes(t *testing.T) {
	for name, text := range map[string]string{
		"other version": "apiVersion: kwok.x-k8s.io/v1beta1\nkind: Stage\n",
		"other group":   "apiVersion: v1\nkind: stage\n",
		"other kind":    "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stagge\n",
		"no version":    "kind: Pod\n",
		"no object":     "[a]\n",
		"no YAML":       "a: [\n",
	} {
		c := Split(stage.File{Name: "f", Data: []byte(text + "---\n" + storageClass)})
		if len(c.Stages) != 1 || !strings.HasPrefix(string(c.Stages[0].Data), text) || len(c.Ignored) != 1 {
			t.Errorf("%s: %q, ignored %v", name, c.Stages, c.Ignored)
		}
	}
	alone := []stage.File{{Name: "f", Data: []byte(storageClass)}, {Name: "g", Data: []byte(storageClass)}}
	if c := Split(alone...); len(c.Stages) != 2 || len(c.Ignored) != 0 {
		t.Errorf("nothing applies: %+v", c)
	}
}
