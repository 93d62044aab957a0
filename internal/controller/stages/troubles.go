package stages

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/rehearse-k8s/rehearse/stage"
)

// A permanent trouble is recorded once as an Event on the object: the author of the stage or the object reads
// Events, not the log of the engine.

// mostTroubles is how many troubles may wait to be recorded. Further ones are only counted.
const mostTroubles = 1024

// troubled queues a trouble. It is called under the lock of the table.
func (e *StageEngine) troubled(t trouble) {
	e.counters.troubles.Add(1)
	select {
	case e.troubles <- t:
	default:
	}
}

// recordTroubles records troubles as Events until ctx ends.
func (e *StageEngine) recordTroubles(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-e.troubles:
			h := fnv.New64a()
			fmt.Fprintf(h, "%s %s %s %s", t.uid, t.stage, t.text, t.version)
			e.options.Logger.Warn("stage cannot be run", "object", t.key.String(), "stage", t.stage, "problem", t.text)
			e.recordEvent(ctx, t.key, t.uid, t.version, h.Sum64(), stage.Event{
				Type: corev1.EventTypeWarning, Reason: "StageFailed", Message: cut(t.message()),
			})
		}
	}
}

// message is the text of the Event. A problem with the stage itself already names the stage.
func (t *trouble) message() string {
	if name := "stage " + t.stage + ": "; !strings.HasPrefix(t.text, name) {
		return name + t.text
	}
	return t.text
}

// cut limits a text to what the API accepts in an Event.
func cut(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// isPermanent reports whether the same request cannot succeed later: the stage fails on this object, or the API
// rejects what it asks for.
func isPermanent(err error) bool {
	if errors.As(err, new(*stage.Error)) || meta.IsNoMatchError(err) {
		return true
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	case http.StatusInternalServerError:
		// An apply that does not fit the schema: the API server has no better code for it.
		return strings.Contains(err.Error(), "failed to create typed patch object")
	}
	return false
}
