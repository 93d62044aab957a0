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

// What will not go away by itself is told on the object, once, as an event:
// whoever wrote the stage or the object reads those, and not an engine's log.

// mostTroubles is how many may wait to be told; more are counted only.
const mostTroubles = 1024

// troubled takes in a trouble. It is called under the table's lock.
func (e *StageEngine) troubled(t trouble) {
	e.counters.troubles.Add(1)
	select {
	case e.troubles <- t:
	default:
	}
}

func (e *StageEngine) tellTroubles(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-e.troubles:
			h := fnv.New64a()
			fmt.Fprintf(h, "%s %s %s %s", t.uid, t.stage, t.text, t.version)
			e.options.Logger.Warn("stage cannot be played as it says", "object", t.key.String(), "stage", t.stage, "problem", t.text)
			e.recordEvent(ctx, t.key, t.uid, t.version, h.Sum64(), stage.Event{
				Type: corev1.EventTypeWarning, Reason: "StageFailed", Message: cut(t.message()),
			})
		}
	}
}

// message is what an event says. A problem with the stage itself names it already.
func (t *trouble) message() string {
	if name := "stage " + t.stage + ": "; !strings.HasPrefix(t.text, name) {
		return name + t.text
	}
	return t.text
}

// cut keeps a text under what the API takes in an event.
func cut(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// refused reports whether trying the same again cannot help: the stage fails on
// this object, or the API says that what it asks for is wrong.
func refused(err error) bool {
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
		// An apply that does not fit the schema; upstream answers with no better code.
		return strings.Contains(err.Error(), "failed to create typed patch object")
	}
	return false
}
