package scenario_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/scenario"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"

// kinds lists the kinds and names of objects, in their order.
func kinds(objects []map[string]any) (out []string) {
	for _, o := range objects {
		out = append(out, fmt.Sprintf("%s %s", o["kind"], o["metadata"].(map[string]any)["name"]))
	}
	return out
}

// TestManifestFiles: documents without content are ignored, the order is that of the file, and JSON is read as well.
func TestManifestFiles(t *testing.T) {
	s, err := parse(`  cluster:
    objects:
    - file: two.yaml
    - object: {apiVersion: v1, kind: Secret, metadata: {name: in-place}}
    - file: one.json
  steps:
  - apply: {file: two.yaml}
`, map[string]string{
		"two.yaml": "# first\n---\n" + fmt.Sprintf(configMap, "b") + "---\n---\n# nothing\n---\n" + fmt.Sprintf(configMap, "a"),
		"one.json": `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "objects", []string{"ConfigMap b", "ConfigMap a", "Secret in-place", "Service s"}, kinds(s.Objects))
	equal(t, "applied", []string{"ConfigMap b", "ConfigMap a"}, kinds(s.Steps[0].Objects))
}

// TestFilesAreRelative: files are found next to the scenario, and each is read once.
func TestFilesAreRelative(t *testing.T) {
	var names []string
	_, err := scenario.Read("dir/s.yaml", []byte(head+oneClient+`  cluster:
    objects: [{file: a.yaml}, {file: ./sub/../a.yaml}, {file: ../b.yaml}, {file: /abs/c.yaml}]
    stages: [s.yaml, "builtin:pod-fast"]
  steps: [{create: {file: a.yaml}}]
`), func(name string) ([]byte, error) {
		names = append(names, filepath.ToSlash(name))
		return []byte(fmt.Sprintf(configMap, "a")), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "files", []string{"dir/s.yaml", "dir/a.yaml", "b.yaml", "/abs/c.yaml"}, names)
}

// TestBuiltinFile: builtin:cloneset defines the kind CloneSet, and is the only one.
func TestBuiltinFile(t *testing.T) {
	s := mustParse(t, "  cluster: {objects: [{file: \"builtin:cloneset\"}]}\n")
	for _, name := range kinds(s.Objects) {
		if !strings.HasPrefix(name, "CustomResourceDefinition ") && !strings.HasPrefix(name, "ValidatingAdmissionPolicy") {
			t.Errorf("builtin:cloneset has %s", name)
		}
	}
	if all := strings.Join(kinds(s.Objects), "\n"); !strings.Contains(all, "CustomResourceDefinition clonesets.apps.kruise.io") {
		t.Errorf("builtin:cloneset has %s", all)
	}
	_, err := parse("  steps: [{create: {file: \"builtin:clonesets\"}}]\n", nil)
	equal(t, "problems", []string{"spec.steps[0].create.file: builtin:clonesets: unknown built-in file; want builtin:cloneset"}, problems(t, err))
}

// TestManifestErrors: what is wrong in a file is reported with the line and field of that file.
func TestManifestErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no kind":                {"apiVersion: v1\nmetadata: {name: a}\n", "o.yaml:1: kind: is missing"},
		"neither":                {"a: b\n", "o.yaml:1: apiVersion: is missing\no.yaml:1: kind: is missing\no.yaml:1: metadata.name: is missing"},
		"no name":                {"apiVersion: v1\nkind: Pod\n", "o.yaml:1: metadata.name: is missing"},
		"empty name":             {"apiVersion: v1\nkind: Pod\nmetadata:\n  name: ''\n", "o.yaml:4: metadata.name: is missing"},
		"number as name":         {"apiVersion: v1\nkind: Pod\nmetadata: {name: 1}\n", `o.yaml:3: metadata.name: 1: must be a text and is a number; write "1"`},
		"generated name":         {"apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", "o.yaml:3: metadata.generateName: a-: an object that is applied needs a name; use create, or give a name"},
		"version without group":  {"apiVersion: a/b/c\nkind: Pod\nmetadata: {name: a}\n", "o.yaml:1: apiVersion: a/b/c: is not a group/version such as apps/v1"},
		"kind is a list":         {"apiVersion: v1\nkind: [Pod]\nmetadata: {name: a}\n", "o.yaml:2: kind: must be a text and is a list"},
		"metadata is a list":     {"apiVersion: v1\nkind: Pod\nmetadata: []\n", "o.yaml:3: metadata: must be an object and is a list"},
		"labels":                 {"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    v: 1\n    on: yes\n", "o.yaml:6: metadata.labels.v: 1: must be a text and is a number; write \"1\"\no.yaml:7: metadata.labels.on: yes: must be a text and is true or false; write \"yes\""},
		"annotations":            {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {a.b/c: {}}}\n", "o.yaml:3: metadata.annotations[a.b/c]: must be a text and is an object"},
		"a list of objects":      {"apiVersion: v1\nkind: List\nitems: []\n", "o.yaml:2: kind: List: lists are not supported; write each item as a document"},
		"a list of pods":         {"apiVersion: v1\nkind: PodList\nitems:\n- {}\n", "o.yaml:2: kind: PodList: lists are not supported; write each item as a document"},
		"the second document":    {fmt.Sprintf(configMap, "a") + "---\ntext\n", "o.yaml:5: text: must be an object and is a text"},
		"no objects":             {"# nothing\n---\n", "s.yaml:6: spec.cluster.objects[0].file: o.yaml: contains no object"},
		"no YAML":                {"a: [\n", "o.yaml:1: is not valid YAML: did not find expected node content"},
		"a field that is a text": {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: [b]}\n", "o.yaml:3: metadata.namespace: must be a text and is a list"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse("  cluster: {objects: [{file: o.yaml}, {file: o.yaml}]}\n", map[string]string{"o.yaml": c.text})
			equal(t, c.text, c.want, fmt.Sprint(err))
		})
	}
}

// TestNameOrGenerateName: an object that is created may leave its name to the API, one that is applied may not.
func TestNameOrGenerateName(t *testing.T) {
	const o = "{object: {apiVersion: v1, kind: Pod, metadata: {generateName: a-}}}"
	equal(t, "create", "create Pod a-…", steps(t, "create: "+o)[0].String())
	for _, spec := range []string{"  steps: [{apply: " + o + "}]\n", "  cluster: {objects: [" + o + "]}\n"} {
		if _, err := parse(spec, nil); err == nil || !strings.Contains(err.Error(), "an object that is applied needs a name") {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

// TestUnreadableFiles: the error of the reader is shown with the field that names the file.
func TestUnreadableFiles(t *testing.T) {
	broken := errors.New("permission denied")
	_, err := scenario.Read("s.yaml", []byte(head+oneClient+"  cluster: {objects: [{file: o.yaml}], stages: [st.yaml, '']}\n"), func(string) ([]byte, error) { return nil, broken })
	equal(t, "errors", "s.yaml:6: spec.cluster.stages[0]: st.yaml: permission denied\ns.yaml:6: spec.cluster.stages[1]: must name a file\n"+
		"s.yaml:6: spec.cluster.objects[0].file: o.yaml: permission denied", fmt.Sprint(err))
	_, err = scenario.Read("s.yaml", []byte(head+oneClient+"  cluster: {objects: [{file: o.yaml}]}\n"), nil)
	equal(t, "without a reader", "s.yaml:6: spec.cluster.objects[0].file: o.yaml: files cannot be read here; write the object in place", fmt.Sprint(err))
}

// TestScopeOfDefinedKinds: a CustomResourceDefinition of the scenario says whether its objects have a namespace.
func TestScopeOfDefinedKinds(t *testing.T) {
	const crd = "{object: {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[1]s}, " +
		"spec: {group: example.com, scope: %[2]s, names: {plural: %[1]s}}}}"
	defined := fmt.Sprintf("  cluster: {objects: [%s, %s, %s]}\n", fmt.Sprintf(crd, "webs", "Namespaced"), fmt.Sprintf(crd, "zones", "Cluster"), fmt.Sprintf(crd, "odds", "Odd"))
	s := mustParse(t, defined+`  steps:
  - delete: {resource: webs.example.com, name: a}
  - delete: {resource: zones.example.com, name: a}
  - delete: {resource: odds.example.com, name: a}
  - delete: {resource: others.example.com, name: a}
`)
	var got []string
	for _, step := range s.Steps {
		got = append(got, step.On.Namespace)
	}
	equal(t, "namespaces", []string{"default", "", "", ""}, got)
	_, err := parse(defined+"  steps: [{delete: {resource: zones.example.com, namespace: b, name: a}}]\n", nil)
	equal(t, "problems", []string{"spec.steps[0].delete.namespace: b: zones.example.com have no namespace; leave it out"}, problems(t, err))
}
