package kwok

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/stage"
)

// TestKnownTemplates: what the stage engine knows of KWOK's published pod stages by heart does
// what rendering them does. The same files with one more comment in the template are not known.
func TestKnownTemplates(t *testing.T) {
	root, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"pod/fast", "pod/general"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		changed, err := unknown(t, files)
		if err != nil {
			t.Fatal(err)
		}
		known, err := load(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		rendered, err := load(changed)
		if err != nil {
			t.Fatal(err)
		}
		played := map[string]int{}
		rapid.Check(t, func(r *rapid.T) {
			p := randomPod(r)
			p.DeletionTimestamp, p.Finalizers = nil, nil
			for seed := range uint64(20) {
				a := known.ours.Decide(now, seed, p, stage.Past{}, stage.Scene{NodeReady: true})
				b := rendered.ours.Decide(now, seed, p, stage.Past{}, stage.Scene{NodeReady: true})
				if a.Stage != b.Stage {
					r.Fatalf("%q and %q", a.Stage, b.Stage)
				}
				if !a.Chosen() {
					continue
				}
				played[a.Stage]++
				if x, y := after(known.ours, p, a), after(rendered.ours, p, b); x != y {
					r.Fatalf("%s:\n%s\nrendered:\n%s", a.Stage, x, y)
				}
			}
		})
		t.Logf("%s: %v", dir, played)
		for _, f := range files {
			if name := strings.TrimSuffix(filepath.Base(f), ".yaml"); name != "pod-delete" && name != "kustomization" && played[name] == 0 {
				t.Errorf("%s/%s was never played", dir, name)
			}
		}
	}
}

// unknown copies files of stages, with another comment at the end of their templates. Those
// that have none are left out.
func unknown(t interface{ TempDir() string }, files []string) (dir string, err error) {
	dir = t.TempDir()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		if !strings.Contains(string(text), "statusTemplate: |") {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), append(text, "      {{/* not known */}}\n"...), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// after is what a stage makes of a pod, or why it cannot.
func after(set *stage.Set, p *corev1.Pod, d stage.Decision) string {
	e, err := (&stage.Player{}).Play(set, now, p, d, facts{})
	if err != nil {
		return "refused"
	}
	data, err := json.MarshalIndent(e.Object, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// TestKnownTemplatesAreKnown counts what playing the published stages allocates: with a
// rendered template it is some hundred times.
func TestKnownTemplatesAreKnown(t *testing.T) {
	root, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	for name, input := range inputs {
		set, err := load(filepath.Dir(filepath.Dir(filepath.Join(root, input))))
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(root, input))
		if err != nil {
			t.Fatal(err)
		}
		o, _, err := read(data)
		if err != nil {
			t.Fatal(err)
		}
		d := set.ours.Decide(now, 1, o, stage.Past{}, stage.Scene{NodeReady: true})
		if n := testing.AllocsPerRun(10, func() {
			if _, err := (&stage.Player{}).Play(set.ours, now, o, d, facts{}); err != nil {
				t.Fatal(err)
			}
		}); n > 40 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
