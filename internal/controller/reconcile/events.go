package reconcile

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// The rate limit of Events. Further ones wait in the recorder's own queue and are dropped when that is full;
// no write of the controller waits for them.
const (
	eventsQPS   = 50
	eventsBurst = 100
)

// Events sends Events. The zero value sends none.
type Events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// NewEvents starts a sender of Events with its own client; if config is nil, it sends none. component is what
// `kubectl describe` shows as their source.
func NewEvents(config *rest.Config, scheme *runtime.Scheme, component string) (*Events, error) {
	if config == nil {
		return &Events{}, nil
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.RateLimiter = eventsQPS, eventsBurst, nil
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client for Events: %w", err)
	}
	e := &Events{broadcaster: record.NewBroadcaster()}
	e.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	e.recorder = e.broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component})
	return e, nil
}

// Emit sends an Event about an object.
func (e *Events) Emit(about runtime.Object, warning bool, reason, message string) {
	if e.recorder == nil {
		return
	}
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	e.recorder.Event(about, kind, reason, message)
}

// Shutdown stops the sender. Events that were not sent yet are lost.
func (e *Events) Shutdown() {
	if e.broadcaster != nil {
		e.broadcaster.Shutdown()
	}
}
