package kwok

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/kwok/pkg/kwokctl/recording"
	"sigs.k8s.io/kwok/pkg/kwokctl/snapshot"
	"sigs.k8s.io/kwok/pkg/utils/client"
	kwokyaml "sigs.k8s.io/kwok/pkg/utils/yaml"
	"sigs.k8s.io/yaml"
)

// program is the binary rehearse, with a home directory of its own.
type program struct {
	*testing.T
	home string
}

// build builds the binary, and stops its clusters at the end of the test.
func build(t *testing.T) program {
	t.Helper()
	p := program{t, t.TempDir()}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(p.home, "rehearse"), "./cmd/rehearse")
	cmd.Dir = filepath.Join("..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		// The context of the test has ended.
		if out, err := p.command(context.Background(), "down", "--all").CombinedOutput(); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	return p
}

func (p program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.home, "rehearse"), args...)
	cmd.Env = append(os.Environ(), "HOME="+p.home, "KUBECONFIG=", "XDG_STATE_HOME=", "REHEARSE_NAME=")
	return cmd
}

// run runs a command that must succeed, and returns its standard output and standard error.
func (p program) run(args ...string) (stdout, stderr string) {
	p.Helper()
	var out, failures bytes.Buffer
	cmd := p.command(p.Context(), args...)
	cmd.Stdout, cmd.Stderr = &out, &failures
	if err := cmd.Run(); err != nil {
		p.Fatalf("rehearse %s: %v\n%s", strings.Join(args, " "), err, failures.String())
	}
	return out.String(), failures.String()
}

// connect returns KWOK's clients for a cluster.
func (p program) connect(cluster string) client.Clientset {
	p.Helper()
	kubeconfig, _ := p.run("get", "kubeconfig", "--name", cluster)
	file := filepath.Join(p.home, cluster+".kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		p.Fatal(err)
	}
	c, err := client.NewClientset("", file)
	if err != nil {
		p.Fatal(err)
	}
	return c
}

// kwokctlKinds are the kinds that the test records. The default kinds of kwokctl include others, which do not change here.
var kwokctlKinds = []string{"node", "configmap", "deployment.apps", "pod"}

// kwokRecording is the file that `kwokctl snapshot export --record` writes.
type kwokRecording struct {
	bytes.Buffer
	wanted map[string]bool // lines that the file lacks: the last change of each kind has one of them
	all    atomic.Bool     // the file has all of them
}

func (r *kwokRecording) Write(data []byte) (int, error) {
	for line := range strings.Lines(string(data)) {
		delete(r.wanted, strings.TrimSpace(line))
	}
	r.all.Store(len(r.wanted) == 0)
	return r.Buffer.Write(data)
}

// resource is one kind of objects in the namespace default.
type resource struct {
	*testing.T
	dynamic.ResourceInterface
}

func (r resource) create(text string) {
	r.Helper()
	o := &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(text), &o.Object)
	if err == nil {
		_, err = r.Create(r.Context(), o, metav1.CreateOptions{})
	}
	if err != nil {
		r.Fatal(err)
	}
}

func (r resource) patch(name, patch string) {
	r.Helper()
	if _, err := r.Patch(r.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		r.Fatal(err)
	}
}

func (r resource) remove(name string) {
	r.Helper()
	if err := r.Delete(r.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		r.Fatal(err)
	}
}

// essentials returns the objects without what each API server sets itself, and without the values of times, which a replay moves.
func essentials(list *unstructured.UnstructuredList) map[string]any {
	var timeless func(v any) any
	timeless = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for key := range v {
				v[key] = timeless(v[key])
			}
		case []any:
			for i := range v {
				v[i] = timeless(v[i])
			}
		case string:
			if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
				return "a time"
			}
		}
		return v
	}
	out := map[string]any{}
	for _, o := range list.Items {
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		out[o.GetName()] = timeless(o.Object)
	}
	return out
}

// TestReplayOfKWOK: KWOK's own code records a cluster whose objects are created, changed, played by stages and deleted. `snapshot replay`
// reads the file unchanged, and a cluster without controllers then has the same objects, with the same status.
func TestReplayOfKWOK(t *testing.T) {
	p := build(t)
	p.run("up", "--detach", "--name", "source", "--nodes", "1", "--controllers=stage,serviceaccount-controller")
	p.run("up", "--detach", "--name", "target", "--nodes", "0", "--controllers=serviceaccount-controller")
	clients := p.connect("source")
	mapper, err := clients.ToRESTMapper()
	if err != nil {
		t.Fatal(err)
	}
	mappings, errs := client.MappingForResources(mapper, kwokctlKinds)
	if len(errs) > 0 || len(mappings) != len(kwokctlKinds) {
		t.Fatal(errs, mappings)
	}
	objects, err := clients.ToDynamicClient()
	if err != nil {
		t.Fatal(err)
	}
	on := func(kind int) resource {
		return resource{t, objects.Resource(mappings[kind].Resource).Namespace("default")}
	}
	configMaps, deployments, pods := on(1), on(2), on(3)
	p.run("kubectl", "--name", "source", "wait", "node/node-0", "--for=condition=Ready", "--timeout=60s")
	configMaps.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: blue, size: small}}")
	configMaps.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: old}}")
	configMaps.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: filler}}")

	// As in KWOK's command `snapshot export --record`.
	file := &kwokRecording{wanted: map[string]bool{"name: last-configmap": true, "name: last-deployment": true, "last: of-pods": true}}
	saver, err := snapshot.NewSaver(snapshot.SaveConfig{Clientset: clients, Filters: mappings})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	encoder := kwokyaml.NewEncoder(recording.NewWriteHook(file, func(b []byte) []byte { return recording.ReplaceTimeToRelative(begin, b) }))
	tracks := map[*meta.RESTMapping]*snapshot.TrackData{}
	if err := saver.Save(t.Context(), encoder, tracks); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	recorded := make(chan error, 1)
	go func() { recorded <- saver.Record(ctx, encoder, tracks) }()

	pod := "{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: shop}}, spec: {nodeName: node-0, terminationGracePeriodSeconds: 0, containers: [{name: main, image: shop}]}}"
	deployment := "{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s}, spec: {replicas: 2, selector: {matchLabels: {app: shop}}, " +
		"template: {metadata: {labels: {app: shop}}, spec: {containers: [{name: main, image: shop}]}}}}"
	pods.create(fmt.Sprintf(pod, "web"))
	pods.create(fmt.Sprintf(pod, "short"))
	p.run("kubectl", "--name", "source", "wait", "pod/web", "pod/short", "--for=condition=Ready", "--timeout=60s")
	pods.remove("short")
	configMaps.patch("settings", `{"data": {"colour": "red", "size": null}, "metadata": {"labels": {"changed": "yes"}}}`)
	configMaps.remove("old")
	deployments.create(fmt.Sprintf(deployment, "shop"))
	deployments.patch("shop", `{"spec": {"replicas": 5}}`)
	pods.patch("web", `{"metadata": {"annotations": {"last": "of-pods"}}}`)
	deployments.create(fmt.Sprintf(deployment, "last-deployment"))
	configMaps.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: last-configmap}}")
	// KWOK writes a change to the file after 1,024 later ones, and an interrupt loses the changes that it has not received.
	const most = 20_000
	fillers := 0
	for ; !file.all.Load() && fillers < most; fillers++ {
		configMaps.patch("filler", fmt.Sprintf(`{"data": {"count": "%d"}}`, fillers))
	}
	interrupt()
	if err := <-recorded; err != nil || fillers == most {
		t.Fatalf("after %d changes: %v, the file lacks %v", fillers, err, file.wanted)
	}

	name := filepath.Join(p.home, "kwok.yaml")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	_, said := p.run("snapshot", "replay", name, "--name", "target", "--speed", "1000")
	counted := regexp.MustCompile(`Replayed (\d+) of (\d+) changes of .*: (\d+) applied, 0 deletions of absent objects, 0 left out, 0 failed;`).FindStringSubmatch(said)
	if counted == nil || counted[1] != counted[2] || counted[1] != counted[3] {
		t.Errorf("%s", said)
	}
	// The interrupt lost the last changes of the filler, so the source must be as the file says.
	last := regexp.MustCompile(`count: "(\d+)"`).FindAllSubmatch(file.Bytes(), -1)
	configMaps.patch("filler", fmt.Sprintf(`{"data": {"count": "%s"}}`, last[len(last)-1][1]))
	copied, err := p.connect("target").ToDynamicClient()
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mappings {
		if i == 0 {
			continue // the stages of the source have played its node before the recording
		}
		want, err := objects.Resource(m.Resource).Namespace("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := copied.Resource(m.Resource).Namespace("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(essentials(want), essentials(got)); d != "" {
			t.Errorf("%s: %s", m.Resource.Resource, d)
		}
	}
}
