package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// Event is a watch frame in the words of the Kubernetes API.
type Event struct {
	Type string // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
	// Object has no Resource: a frame does not tell; the request of its stream does.
	history.Object
	// Revision is the resourceVersion of the object or bookmark; 0 if there is none.
	Revision int64
	// InitialEnd marks the bookmark after which everything that existed when the
	// watch began has been told.
	InitialEnd bool
	// Code is the status code of an ERROR.
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
		return Event{}, fmt.Errorf("a watch frame of %d bytes: %w", len(frame), err)
	}
	if e.Type == "" {
		return Event{}, fmt.Errorf("wire: a watch frame of %d bytes has no type", len(frame))
	}
	e.Object, e.Revision = o.named(), o.revision()
	e.InitialEnd = o.initialEnd && e.Type == "BOOKMARK"
	e.Code = o.code
	e.Digest = Digest(frame)
	return e, nil
}

// Item is the event as faults see it. initial says that the stream has not yet
// told all that existed when it began.
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
			if err != nil || typ != "" { // which the server writes first
				return false, err
			}
			s.i = start
		}
		return true, s.skip()
	})
	return typ, o, err
}

// protobufEvent reads a length, a metav1.WatchEvent, and the RawExtension in it.
func protobufEvent(frame []byte) (typ string, o object, err error) {
	if len(frame) < lengthSize || int64(binary.BigEndian.Uint32(frame)) != int64(len(frame)-lengthSize) {
		return "", o, errors.New("wire: its length is not the one it begins with")
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

// eventType saves the allocation of the names that all frames carry.
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
