package cluster

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rehearse-k8s/rehearse/internal/controller/clonesets"
	"github.com/rehearse-k8s/rehearse/internal/controller/jobs"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/internal/probes"
)

// metrics is the door at Options.MetricsAddress: what the stage engine and our
// controllers count, and whether stages are played. The API server has its own on its
// own port.
type metrics struct {
	engine    *stages.Metrics // nil when nobody can read it, as the next two
	jobs      *jobs.Metrics
	cloneSets *clonesets.Metrics
	server    *probes.Server

	mu     sync.Mutex
	synced <-chan struct{} // nil before there is an engine
}

// serveMetrics opens the door before anything else is started, so that an
// address that is taken costs nothing.
func serveMetrics(address string) (*metrics, error) {
	m := &metrics{}
	if address == "" || address == probes.Off {
		return m, nil
	}
	m.engine, m.jobs, m.cloneSets = stages.NewMetrics(), jobs.NewMetrics(), clonesets.NewMetrics()
	var err error
	if m.server, err = probes.Listen(address, probes.Registry(m.engine, m.jobs, m.cloneSets), m.ready); err != nil {
		return nil, fmt.Errorf("--metrics-address %s: %w", address, err)
	}
	return m, nil
}

// watch tells it which engine to wait for.
func (m *metrics) watch(e *stages.StageEngine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = e.Synced()
}

func (m *metrics) ready() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.synced:
		return nil
	default:
		return errors.New("the stage engine does not play")
	}
}

func (m *metrics) close() { m.server.Close() }
