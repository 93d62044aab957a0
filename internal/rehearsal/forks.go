package rehearsal

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// forks is an in-process API server with one prepared world. Each run gets a fork of that world, and many
// runs execute in parallel.
type forks struct {
	o            Options
	worlds       *store.Worlds
	server       *apiserver.Server
	serverKeys   map[string]bool // keys that the server creates by itself
	preparedKeys map[string]bool // keys of the prepared world without the server's own
}

func startForks(ctx context.Context, o Options) (*forks, error) {
	g := &forks{o: o, worlds: store.New(store.Options{}), preparedKeys: map[string]bool{}}
	var err error
	g.server, err = apiserver.Start(context.WithoutCancel(ctx), apiserver.Options{
		Dir: g.pki(), Backend: apiserver.Memory{Worlds: g.worlds}, Runs: true, Version: o.Version, Conversions: o.Conversions,
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (g *forks) pki() string { return filepath.Join(g.o.Dir, "pki") }

func (g *forks) close() error {
	g.server.Stop()
	return nil
}

func (g *forks) config(actor string) *rest.Config { return g.server.RESTConfig("rehearse:" + actor) }

// setUp installs the kinds and creates the nodes.
func (g *forks) setUp(ctx context.Context) error {
	if err := g.server.Ready(ctx); err != nil {
		return err
	}
	var err error
	if g.serverKeys, err = g.keys(); err != nil {
		return err
	}
	config := g.config("prepare")
	if g.o.Kinds != nil {
		if err := g.o.Kinds(ctx, config); err != nil {
			return err
		}
	}
	return g.createNodes(ctx, config)
}

// captureInitial records the keys of the prepared world.
func (g *forks) captureInitial(context.Context) error {
	keys, err := g.keys()
	for key := range keys {
		g.preparedKeys[key] = !g.serverKeys[key]
	}
	return err
}

// createInitial applies the object: it may complete an object that the server created by itself.
func (g *forks) createInitial(ctx context.Context, to dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	return applyTo(ctx, to, o)
}

// createNodes creates the simulated nodes, which are ready at once.
func (g *forks) createNodes(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for n := range g.o.Scenario.Nodes {
		node, err := client.CoreV1().Nodes().Create(ctx, stages.ReadyNode(fmt.Sprintf("node-%d", n), time.Now()), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		// The API server taints a new node as not ready, whatever its status says.
		node.Spec.Taints = nil
		if _, err := client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (g *forks) keys() (map[string]bool, error) {
	kvs, _, _, err := g.worlds.World("").RawRange("", "\x00", 0, 0)
	keys := map[string]bool{}
	for _, kv := range kvs {
		keys[kv.Key] = true
	}
	return keys, err
}

// isInherited reports whether a fork contains a key: the prepared objects, and those that the API server
// requires.
func (g *forks) isInherited(key string) bool {
	for _, prefix := range [...]string{"/namespaces/", "/priorityclasses/", "/servicecidrs/"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return g.preparedKeys[key] && !verdict.Bookkeeping(key)
}

// firstRevision is the revision at which the world of every run begins.
const firstRevision = 10_000

// newWorld forks the prepared world for a run.
func (g *forks) newWorld(_ context.Context, run string, seed uint64) (*runWorld, error) {
	world, err := g.worlds.Fork(run, store.RunOptions{Seed: seed, Revision: firstRevision, Keep: g.isInherited})
	if err != nil {
		return nil, err
	}
	return &runWorld{
		config: func(actor string) *rest.Config { return g.server.RunConfig(run, "rehearse:"+actor) },
		source: storeSource{g.worlds, world},
		drop:   func(*history.Run, map[string][]write) { g.worlds.Drop(run) },
		pki:    g.pki(),
	}, nil
}
