package simtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// server is the process's API server. The first run starts it, and it runs until the process exits.
// What it shares between requests is created outside all bubbles.
type server struct {
	worlds *store.Worlds
	api    *apiserver.Server
	config *rest.Config // the configuration of a client of the world that runs are forked from
	work   chan *exchange
	idle   chan *exchange
	guard  guard

	decoded *verdict.Decodings
	answers answers

	mu     sync.Mutex
	mapper meta.RESTMapper
	// mappings are answers of mapper.
	mappings map[schema.GroupVersionKind]*meta.RESTMapping
	// preferred lists the resources that the API serves, each in its preferred version.
	preferred []*metav1.APIResourceList
	crds      map[string]bool // PLURAL.GROUP of the CRDs that tests installed
	handlers  map[string]apiserver.ServeFunc
}

var theServer = sync.OnceValues(startServer)

func startServer() (*server, error) {
	configureProcess()
	dir, err := serverDir()
	if err != nil {
		return nil, err
	}
	worlds := store.New(store.Options{})
	api, err := apiserver.Start(context.Background(), apiserver.Options{
		Dir: dir, Backend: apiserver.Memory{Worlds: worlds}, Runs: true,
	})
	if err != nil {
		return nil, fmt.Errorf("simtest: start the API server: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := api.Ready(ctx); err != nil {
		return nil, fmt.Errorf("simtest: %w", err)
	}
	s := &server{
		worlds: worlds, api: api, config: api.RESTConfig("simtest"), decoded: verdict.NewDecodings(apiserver.DecodeStored),
		work: make(chan *exchange), idle: make(chan *exchange, workers),
		crds: map[string]bool{}, handlers: map[string]apiserver.ServeFunc{},
	}
	for range workers {
		s.idle <- &exchange{done: make(chan struct{}, 1)}
		go s.serve()
	}
	return s, s.discover()
}

// serverDir returns the directory of the server's certificates. A test binary cannot clean up when
// it exits, so each start removes the directories of processes that have exited.
func serverDir() (string, error) {
	const prefix = "rehearse-simtest-"
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, dir := range left {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), prefix))
		if err == nil && !processExists(pid) {
			_ = os.RemoveAll(dir)
		}
	}
	dir := filepath.Join(os.TempDir(), prefix+strconv.Itoa(os.Getpid()))
	// A directory with our own PID belongs to an earlier process.
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("simtest: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("simtest: create the directory for certificates: %w", err)
	}
	return dir, nil
}

func processExists(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// discover reads which resources the API serves. It is repeated when a CRD is installed.
func (s *server) discover() error {
	client, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		return err
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return fmt.Errorf("simtest: discovery: %w", err)
	}
	preferred, err := client.ServerPreferredResources()
	if err != nil {
		return fmt.Errorf("simtest: discovery: %w", err)
	}
	s.mu.Lock()
	s.mapper, s.preferred = restmapper.NewDiscoveryRESTMapper(groups), preferred
	s.mappings = map[schema.GroupVersionKind]*meta.RESTMapping{}
	s.mu.Unlock()
	return nil
}

// mapping returns the resource of a kind. It remembers the answers of the mapper, which searches all groups.
func (s *server) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.mappings[kind]; m != nil {
		return m, nil
	}
	m, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err == nil {
		s.mappings[kind] = m
	}
	return m, err
}

// restMapper returns a mapper of all served kinds, which sends no requests.
func (s *server) restMapper() meta.RESTMapper {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mapper
}

// handler returns the in-process handler of the requests of an actor.
func (s *server) handler(actor string) apiserver.ServeFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.handlers[actor]
	if d == nil {
		d = s.api.InProcess(actor)
		s.handlers[actor] = d
	}
	return d
}

// revision is the first revision of every run, so that the revisions of two runs can be compared.
const revision = 1000

// fork creates the world of a run. It contains namespaces, priority classes, address ranges and the
// CRDs that tests installed, and nothing else.
func (s *server) fork(run string, seed uint64, now func() time.Time) (*store.World, error) {
	return s.worlds.Fork(run, store.RunOptions{Seed: seed, Now: now, Revision: revision, Keep: s.keeps})
}

func (s *server) keeps(key string) bool {
	for _, prefix := range [...]string{"/namespaces/", "/priorityclasses/", "/servicecidrs/"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	crd, ok := strings.CutPrefix(key, "/apiextensions.k8s.io/customresourcedefinitions/")
	s.mu.Lock()
	defer s.mu.Unlock()
	return ok && s.crds[crd]
}
