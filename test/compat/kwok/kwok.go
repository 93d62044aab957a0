package kwok

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/utils/gotpl"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/stage"
)

// shipped returns the directory of the stages that KWOK ships.
func shipped() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok").Output()
	return filepath.Join(strings.TrimSpace(string(out)), "kustomize", "stage"), err
}

// both contains the same stages in the form of KWOK and of package stage.
type both struct {
	kwok map[stage.Kind]lifecycle.Lifecycle
	ours *stage.Set
}

// load reads the files of directories of stages. It skips documents that are not Stages, as KWOK does.
func load(dirs ...string) (b both, err error) {
	var files []string
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil {
			return b, err
		}
		files = append(files, found...)
	}
	var names []string
	var texts []stage.File
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return b, err
		}
		if strings.Contains(string(data), "kind: Stage\n") {
			names, texts = append(names, f), append(texts, stage.File{Name: f, Data: data})
		}
	}
	objects, err := config.Load(context.Background(), names...)
	if err != nil {
		return b, err
	}
	byKind := map[stage.Kind][]*internalversion.Stage{}
	for _, s := range config.FilterWithType[*internalversion.Stage](objects) {
		k := stage.Kind{APIVersion: s.Spec.ResourceRef.APIGroup, Kind: s.Spec.ResourceRef.Kind}
		byKind[k] = append(byKind[k], s)
	}
	b.kwok = map[stage.Kind]lifecycle.Lifecycle{}
	for k, stages := range byKind {
		if b.kwok[k], err = lifecycle.NewLifecycle(stages); err != nil {
			return b, err
		}
	}
	set, _, bad := stage.LoadGood(texts...)
	if len(bad) > 0 {
		return b, bad[0]
	}
	b.ours = set
	return b, nil
}

// read decodes an object as the engines receive it: pods and nodes as Go structs.
func read(data []byte) (stage.Object, stage.Kind, error) {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &u.Object); err != nil {
		return nil, stage.Kind{}, err
	}
	kind := stage.Kind{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()}
	var typed interface {
		stage.Object
		runtime.Object
	}
	switch kind {
	case stage.KindPod:
		typed = &corev1.Pod{}
	case stage.KindNode:
		typed = &corev1.Node{}
	default:
		return u, kind, nil
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed)
	typed.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind())
	return typed, kind, err
}

func event(o stage.Object) *lifecycle.Event {
	return &lifecycle.Event{Labels: o.GetLabels(), Annotations: o.GetAnnotations(), Data: o}
}

// The facts outside the objects, the same for both.
var (
	now   = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	start = now.Add(-time.Hour)
)

type facts struct{}

func (facts) NodeIPs(string) ([]string, error)           { return []string{"10.0.0.1"}, nil }
func (facts) PodIPs(types.UID, string) ([]string, error) { return []string{"10.1.0.7"}, nil }
func (facts) NodePort() int                              { return 10250 }
func (facts) Version() string                            { return "v1.36.3" }
func (facts) StartTime() time.Time                       { return start }

func renderer(name string) gotpl.Renderer {
	hostOr := func(ip string) func(node string, host bool, _, _, _ string) string {
		return func(_ string, host bool, _, _, _ string) string {
			if host {
				return "10.0.0.1"
			}
			return ip
		}
	}
	stamp := now.Format(time.RFC3339Nano)
	return gotpl.NewRenderer(gotpl.FuncMap{
		"Now": func() string { return stamp }, "Version": func() string { return "v1.36.3" },
		"StartTime": func() string { return start.Format(time.RFC3339Nano) },
		"NodeIP":    func() string { return "10.0.0.1" }, "NodeName": func() string { return name }, "NodePort": func() int { return 10250 },
		"NodeIPWith":  func(string) string { return "10.0.0.1" },
		"NodeIPsWith": func(string) []string { return []string{"10.0.0.1"} },
		"PodIP":       func() string { return "10.1.0.7" },
		"PodIPWith":   hostOr("10.1.0.7"),
		"PodIPsWith": func(node string, host bool, a, b, c string) []string {
			return []string{hostOr("10.1.0.7")(node, host, a, b, c)}
		},
	})
}

// outcome is the result of a stage.
type outcome struct {
	Object  map[string]any
	Others  []map[string]any // objects that it applied
	Deleted bool
	Events  []string
}

// change applies a patch in memory as the API would.
func (x *outcome) change(kind stage.Kind, patch []byte, t types.PatchType) error {
	before, err := json.Marshal(x.Object)
	if err != nil {
		return err
	}
	var after []byte
	switch t {
	case types.JSONPatchType:
		p, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return err
		}
		if after, err = p.Apply(before); err != nil {
			return err
		}
	case types.StrategicMergePatchType:
		var schema any = &corev1.Pod{}
		if kind == stage.KindNode {
			schema = &corev1.Node{}
		}
		if after, err = strategicpatch.StrategicMergePatch(before, patch, schema); err != nil {
			return err
		}
	default:
		if after, err = jsonpatch.MergePatch(before, patch); err != nil {
			return err
		}
	}
	x.Object = nil
	return json.Unmarshal(after, &x.Object)
}

// kwokDoes runs one of KWOK's stages.
func kwokDoes(templates gotpl.Renderer, s *lifecycle.Stage, o stage.Object, kind stage.Kind) (*outcome, error) {
	x := &outcome{Object: plain(o)}
	_, err := s.DoSteps(0, o.GetFinalizers(), o, templates,
		func(e *internalversion.StageEvent) error {
			x.Events = append(x.Events, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
			return nil
		},
		func() error { x.Deleted = true; return nil },
		func(p *lifecycle.Patch) error {
			return x.change(kind, p.Data, p.Type)
		},
		func(a *lifecycle.Apply) error {
			var other map[string]any
			err := json.Unmarshal(a.Data, &other)
			x.Others = append(x.Others, other)
			return err
		})
	return x, err
}

// weDo runs the decision of package stage.
func weDo(set *stage.Set, d stage.Decision, o stage.Object, kind stage.Kind) (*outcome, error) {
	x := &outcome{Object: plain(o)}
	effects, err := set.Play(now, o, d, facts{})
	if err != nil {
		return nil, err
	}
	for _, e := range effects.Events {
		x.Events = append(x.Events, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
	}
	if effects.Write != stage.WriteNothing {
		x.Object = plain(effects.Object)
	}
	for _, r := range effects.Requests {
		body, err := json.Marshal(r.Body)
		if err != nil {
			return nil, err
		}
		if !r.Own {
			var other map[string]any
			if err := json.Unmarshal(body, &other); err != nil {
				return nil, err
			}
			x.Others = append(x.Others, other)
			continue
		}
		if err := x.change(kind, body, r.Type); err != nil {
			return nil, err
		}
	}
	x.Deleted = effects.Delete
	return x, nil
}

// plain returns an object as decoded JSON.
func plain(o metav1.Object) map[string]any {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}
