package simtest_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rehearse-k8s/rehearse/simtest"
)

// TestCorpusOfTest: with -simtest.corpus, a search writes the plans that showed new behaviour, and the next one starts from
// them.
func TestCorpusOfTest(t *testing.T) {
	dir := t.TempDir()
	must(t, flag.Set("simtest.corpus", dir))
	t.Cleanup(func() { must(t, flag.Set("simtest.corpus", "")) })
	first := simtest.Explore(t, simtest.Seeds(60), podTest(2))
	data, err := os.ReadFile(filepath.Join(dir, "TestCorpusOfTest.jsonl"))
	if err != nil || len(data) == 0 || first.Failure != nil {
		t.Fatalf("%d bytes, %v, %+v", len(data), err, first.Failure)
	}
	second := simtest.Explore(t, simtest.Seeds(40), podTest(2))
	if second.Failure != nil || second.Distinct < 10 {
		t.Errorf("%d different runs, %+v", second.Distinct, second.Failure)
	}
}
