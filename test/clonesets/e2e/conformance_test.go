package e2e

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// upstreams are the cases of OpenKruise's test/e2e/apps/v1beta1/cloneset.go, in its order: the name of the
// case there, the test here that asserts the same, and the differences.
var upstreams = []struct{ name, test, differs, why string }{
	{"creates with hostNetwork pod and containerPort without hostPort", "TestHostNetwork", "", ""},
	{"creates with lifecycle preNormal finalizer", "TestPreNormal", "deadline of 2 s, not 10", ""},
	{"creates with unschedulable scheduler", "TestUnschedulable", "deadline of 2 s, not 10", ""},
	{"creates with maxInt32 progressDeadlineSeconds", "TestNoDeadline", "", ""},
	{"creates with maxInt32 minReadySeconds and progressDeadlineSeconds", "TestNeverAvailable", "", ""},
	{"scales in normal cases", "TestScale", "also down again; no limit of 3 s", "the time would depend on the machine"},
	{"scales with minReadySeconds and scaleStrategy", "TestScaleOneByOne", "minReadySeconds of 2, not 10; that the next pod comes within 2 s is tested with plans, not here", "the time would depend on the machine"},
	{"pods should be ready when paused=true", "TestPaused", "also scales while paused, and continues", ""},
	{"specific delete a Pod, excludePreparingDelete disabled", "TestSpecifiedDelete", "", ""},
	{"specific scale down with lifecycle, then scale up, excludePreparingDelete enabled", "TestSpecifiedScaleDown", "", ""},
	{"in-place update images with the same imageID", "TestSameImageID", "the containerID shows the restart", "no daemon of OpenKruise writes its annotation here, and every kubelet writes a containerID"},
	{"in-place update both image and env from label", "TestImageAndEnvironment", "also the environment alone; the stage engine restarts the container, as the daemon does", ""},
	{"in-place update two container images with priorities successfully", "TestPriorities", "the first container takes 2 s, not 10", ""},
	{"in-place update two container images with priorities, previous failed", "TestPrioritiesFailed", "2 s without a change, not 10; also that the next follows once the image of the first can be pulled", ""},
	{"in-place update two container image and env from metadata with priorities", "TestPrioritiesOfEnvironment", "also the environment alone", ""},
	{"partition=99%, replicas=4 makes sure 1 pod is upgraded", "TestPartition", "2 s without a change, not 10", ""},
	{"Update with EnablePVCReuse=false", "TestClaimReuse", "", ""},
	{"regard preparing-update pod as update when scaling", "TestPreparingUpdateCounts", "holds always, not by a feature gate", ""},
	{"Update with VolumeClaimTemplate changes", "TestClaimTemplates", "holds always, not by a feature gate", ""},
	{"change resource and qos -> recreate", "TestQualityOfService", "also a change that leaves the class as it is, without a restart", ""},
	{"pre-download for new image", "", "not here", "an ImagePullJob is carried out by OpenKruise's daemon on the nodes, from its NodeImage objects; the fields are stored, and this controller does not read them"},
	{"changes pods only when updateStrategy type is OnDelete", "TestOnDelete", "", ""},
}

const (
	page  = "../../../docs/reference/cloneset-conformance.md"
	first = "<!-- cases: from test/clonesets/e2e; UPDATE_GOLDEN=1 go test -run TestConformance ./test/clonesets/e2e -->\n"
	last  = "<!-- end of cases -->\n"
)

// TestConformance checks that the table of the documentation matches the cases.
func TestConformance(t *testing.T) {
	there := tests(t)
	var table strings.Builder
	table.WriteString("| OpenKruise's case | Ours | What differs |\n|---|---|---|\n")
	for _, c := range upstreams {
		if c.test != "" && !there[c.test] {
			t.Errorf("the test %s does not exist", c.test)
		}
		delete(there, c.test)
		differs := c.differs
		if c.why != "" {
			differs += ": " + c.why
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", c.name, cmp.Or(c.test, "–"), cmp.Or(differs, "nothing"))
	}
	delete(there, "TestConformance")
	for name := range there {
		t.Errorf("test %s covers no upstream case: move it to another package", name)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), first)
	_, after, ok2 := strings.Cut(rest, last)
	if !ok || !ok2 {
		t.Fatalf("%s has no markers for the table: %s", page, first)
	}
	want := before + first + table.String() + last + after
	switch {
	case want == string(text):
	case os.Getenv("UPDATE_GOLDEN") != "":
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the cases; UPDATE_GOLDEN=1 updates it:\n%s", page, table.String())
	}
}

// tests returns the names of this package's tests.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}
