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

// metrics is the listener at Options.MetricsAddress: the metrics of the stage engine and of our controllers, and whether the
// stage engine has synced. The API server serves its own metrics on its own port.
type metrics struct {
	engine    *stages.Metrics // nil without a listener, as the next two
	jobs      *jobs.Metrics
	cloneSets *clonesets.Metrics
	server    *probes.Server

	mu     sync.Mutex
	synced <-chan struct{} // nil before watch is called
}

// serveMetrics opens the listener before anything else is started, so that an address in use fails early.
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

// watch sets the engine whose sync the readiness check reports.
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
		return errors.New("the stage engine has not synced")
	}
}

func (m *metrics) close() { m.server.Close() }
