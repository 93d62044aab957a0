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
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// server is the process's API server. It is started by the first run and lives as
// long as the process; no bubble ever touches what it shares between requests.
type server struct {
	worlds *store.Worlds
	api    *apiserver.Server
	config *rest.Config // the process's own world, outside of runs
	work   chan *exchange
	idle   chan *exchange
	guard  guard

	decoded *verdict.Decodings
	answers answers

	mu     sync.Mutex
	mapper meta.RESTMapper
	// preferred is what the API serves, in the versions that it likes best.
	preferred []*metav1.APIResourceList
	crds      map[string]bool // plural.group that tests installed
	doors     map[string]apiserver.ServeFunc
}

var theServer = sync.OnceValues(startServer)

func startServer() (*server, error) {
	takeOver()
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
		crds: map[string]bool{}, doors: map[string]apiserver.ServeFunc{},
	}
	for range workers {
		s.idle <- &exchange{done: make(chan struct{}, 1)}
		go s.serve()
	}
	return s, s.discover()
}

// serverDir is where the server's certificates lie while the process lives. A test
// binary has no end at which it could clean up, so each start removes what dead
// processes left.
func serverDir() (string, error) {
	const prefix = "rehearse-simtest-"
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, dir := range left {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), prefix))
		if err == nil && !alive(pid) {
			_ = os.RemoveAll(dir)
		}
	}
	dir := filepath.Join(os.TempDir(), prefix+strconv.Itoa(os.Getpid()))
	// A directory of our own number is of a process that had it before us.
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("simtest: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("simtest: a directory for certificates: %w", err)
	}
	return dir, nil
}

func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// discover learns which resources are served. It is repeated when a CRD is
// installed.
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
	s.mu.Unlock()
	return nil
}

// restMapper knows all served kinds, without a request.
func (s *server) restMapper() meta.RESTMapper {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mapper
}

// door is the in-process door for an actor.
func (s *server) door(actor string) apiserver.ServeFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.doors[actor]
	if d == nil {
		d = s.api.InProcess(actor)
		s.doors[actor] = d
	}
	return d
}

// revision is where every run's world begins, so that revisions of two runs can be
// compared.
const revision = 1000

// fork makes the world of a run: namespaces, priority classes, address ranges and
// the CRDs that tests installed, and nothing else.
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
