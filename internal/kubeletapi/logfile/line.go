// Package logfile reads the log files of containers: it parses the formats of CRI runtimes and of Docker, selects lines as
// `kubectl logs` does, and follows a file that grows, is rotated or is truncated.
//
// It knows no pod and no Kubernetes API: the caller names a file and says when its container has ended.
//
// Floor: F3. It reads files.
package logfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
)

// The streams of a container.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Line is one record of a log file.
type Line struct {
	Time time.Time
	// Stream is Stdout or Stderr.
	Stream string
	// Text ends with a line break, except if the record is a part of a longer line.
	Text []byte
}

// parser parses one record of a file, with or without its line break.
type parser func(record []byte) (Line, error)

// errFormat reports a record that is in neither format.
var errFormat = errors.New("the line has neither the format of CRI runtimes (2027-03-01T09:00:00.5Z stdout F text) nor that of Docker (a JSON object with log, stream and time)")

// parserFor returns the parser that accepts a record.
func parserFor(record []byte) (parser, error) {
	for _, p := range []parser{parseCRI, parseDocker} {
		if _, err := p(record); err == nil {
			return p, nil
		}
	}
	return nil, errFormat
}

// parseCRI parses `TIME STREAM TAGS TEXT`. The first of the tags, which colons separate, is F for a full line or P for a part of one.
func parseCRI(record []byte) (Line, error) {
	stamp, rest, ok := bytes.Cut(record, []byte{' '})
	if !ok {
		return Line{}, errFormat
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return Line{}, errFormat
	}
	stream, rest, ok := bytes.Cut(rest, []byte{' '})
	if !ok || string(stream) != Stdout && string(stream) != Stderr {
		return Line{}, errFormat
	}
	tags, text, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return Line{}, errFormat
	}
	tag, _, _ := bytes.Cut(tags, []byte{':'})
	if string(tag) == "P" {
		text = bytes.TrimSuffix(text, []byte{'\n'})
	}
	return Line{Time: at, Stream: string(stream), Text: text}, nil
}

// parseDocker parses {"log":"text\n","stream":"stdout","time":"2027-03-01T09:00:00.5Z"}.
func parseDocker(record []byte) (Line, error) {
	var r struct {
		Log    *string   `json:"log"`
		Stream string    `json:"stream"`
		Time   time.Time `json:"time"`
	}
	if err := json.Unmarshal(record, &r); err != nil || r.Log == nil || r.Stream != Stdout && r.Stream != Stderr {
		return Line{}, errFormat
	}
	return Line{Time: r.Time, Stream: r.Stream, Text: []byte(*r.Log)}, nil
}
