package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// Event describes a watch frame in terms of the Kubernetes API.
type Event struct {
	Type string // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
	// Object has no Resource: only the request of the stream has it.
	history.Object
	// Revision is the resourceVersion of the object or bookmark; 0 if it is missing.
	Revision int64
	// InitialEnd is true for the bookmark that ends the initial events of a watch.
	InitialEnd bool
	// Code is the status code of an ERROR event.
	Code   int32
	Digest string // see [Digest]
}

// DescribeEvent reads a frame of a [Splitter].
func DescribeEvent(contentType string, frame []byte) (e Event, err error) {
	encoding, err := encodingOf(contentType)
	if err != nil {
		return e, err
	}
	var o object
	switch encoding {
	case protobufEncoding:
		e.Type, o, err = protobufEvent(frame)
	case cborEncoding:
		e.Type, o, err = cborEvent(frame)
	default:
		e.Type, o, err = jsonEvent(frame)
	}
	if err != nil {
		return Event{}, fmt.Errorf("read watch frame of %d bytes: %w", len(frame), err)
	}
	if e.Type == "" {
		return Event{}, fmt.Errorf("read watch frame of %d bytes: the type is missing", len(frame))
	}
	e.Object, e.Revision = o.named(), o.revision()
	e.InitialEnd = o.initialEnd && e.Type == "BOOKMARK"
	e.Code = o.code
	e.Digest = Digest(frame)
	return e, nil
}

// Item describes the event for the matching with faults. initial is true if the initial events of
// the stream are not complete.
func (e *Event) Item(actor, resource string, initial bool) fault.Item {
	return fault.Item{
		Class: fault.Event, Actor: actor, Resource: resource, Object: e.Key(), Type: e.Type,
		Initial: initial || e.InitialEnd,
	}
}

func jsonEvent(frame []byte) (typ string, o object, err error) {
	s := scan{b: frame}
	if s.space() != '{' {
		return "", o, errJSON
	}
	err = s.object(func(key []byte) (more bool, err error) {
		switch string(key) {
		case "type":
			var v []byte
			v, _, err = s.text()
			typ = eventType(v)
			return true, err
		case "object":
			if s.space() != '{' {
				return true, s.skip()
			}
			start := s.i
			err = o.scan(&s)
			if err != nil || typ != "" { // the server writes the type first
				return false, err
			}
			s.i = start
		}
		return true, s.skip()
	})
	return typ, o, err
}

// protobufEvent reads a length prefix, a metav1.WatchEvent, and the RawExtension in it.
func protobufEvent(frame []byte) (typ string, o object, err error) {
	if len(frame) < lengthSize || int64(binary.BigEndian.Uint32(frame)) != int64(len(frame)-lengthSize) {
		return "", o, errors.New("wire: the length prefix does not match")
	}
	var raw []byte
	var inner error
	err = fields(frame[lengthSize:], func(n protowire.Number, v []byte, _ uint64) {
		switch n {
		case 1:
			typ = eventType(v)
		case 2:
			inner = fields(v, func(n protowire.Number, v []byte, _ uint64) {
				if n == 1 {
					raw = v
				}
			})
		}
	})
	if err == nil {
		err = inner
	}
	if err != nil || len(raw) == 0 {
		return typ, o, err
	}
	o, err = readObject(raw)
	return typ, o, err
}

// eventType returns the type, without an allocation for the usual types.
func eventType(v []byte) string {
	switch string(v) {
	case "ADDED":
		return "ADDED"
	case "MODIFIED":
		return "MODIFIED"
	case "DELETED":
		return "DELETED"
	case "BOOKMARK":
		return "BOOKMARK"
	case "ERROR":
		return "ERROR"
	}
	return string(v)
}
