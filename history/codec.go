package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine is the maximum length of a line in bytes. A step contains names, notes, and the few
// objects that one request changes.
const maxLine = 4 << 20

// verdict is the last line of a record. Exactly one of its fields is set.
type verdict struct {
	Failure      *Failure `json:"failure,omitempty"`
	Held         bool     `json:"held,omitempty"`
	Inconclusive string   `json:"inconclusive,omitempty"`
}

// Write writes a run as lines of JSON: the header, the steps, the verdict.
func Write(w io.Writer, run *Run) error {
	if run.Failure != nil && run.Inconclusive != "" {
		return errors.New("history: a run cannot have failed and be inconclusive; set one of Failure and Inconclusive")
	}
	buffered := bufio.NewWriter(w)
	enc := json.NewEncoder(buffered)
	enc.SetEscapeHTML(false)
	header := run.Header
	header.Format = Format
	if err := enc.Encode(header); err != nil {
		return fmt.Errorf("history: the header: %w", err)
	}
	for i := range run.Steps {
		if err := enc.Encode(&run.Steps[i]); err != nil {
			return fmt.Errorf("history: step %d: %w", i, err)
		}
	}
	v := verdict{Failure: run.Failure, Inconclusive: run.Inconclusive}
	v.Held = v == verdict{}
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("history: the verdict: %w", err)
	}
	return buffered.Flush()
}

// Read reads what [Write] wrote. It rejects a record that is truncated, modified or of another
// format; errors name the line and the field.
func Read(r io.Reader) (*Run, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	run := &Run{}
	done := false
	n := 0
	for lines.Scan() {
		n++
		line := lines.Bytes()
		var err error
		switch {
		case done:
			err = errors.New("something follows the verdict; a file holds one run")
		case n == 1:
			err = readHeader(line, &run.Header)
		default:
			done, err = run.read(line)
		}
		if err != nil {
			return nil, fmt.Errorf("history: line %d: %w", n, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("history: line %d: longer than %d bytes: this is no record of a run", n+1, maxLine)
	case err != nil:
		return nil, fmt.Errorf("history: after line %d: %w", n, err)
	case n == 0:
		return nil, errors.New("history: the file is empty")
	case !done:
		return nil, fmt.Errorf("history: line %d: the file ends without a verdict: it was cut short", n)
	}
	return run, nil
}

func readHeader(line []byte, h *Header) error {
	// Check the format first: the rest of another format cannot be decoded.
	var version struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(line, &version); err != nil || version.Format == nil {
		return errors.New("no header with a field \"format\": this is no record of a run")
	}
	if *version.Format != Format {
		return fmt.Errorf("format is %d and this version reads %d; read it with the version that wrote it", *version.Format, Format)
	}
	if err := decode(line, h); err != nil {
		return err
	}
	return h.Schedule.check()
}

// read decodes a line that is a step or the verdict.
func (r *Run) read(line []byte) (done bool, err error) {
	var l struct {
		Step
		verdict
	}
	if err := decode(line, &l); err != nil {
		return false, err
	}
	if l.Kind != "" {
		if l.Failure != nil || l.Held || l.Inconclusive != "" {
			return false, errors.New("it is a step (kind) and a verdict")
		}
		return false, r.readStep(&l.Step)
	}
	switch v := l.verdict; {
	case v.Failure != nil && !v.Held && v.Inconclusive == "":
		if last := max(0, len(r.Steps)-1); v.Failure.Step < 0 || v.Failure.Step > last {
			return false, fmt.Errorf("failure.step is %d, and the last step is %d", v.Failure.Step, last)
		}
	case v.Failure == nil && v.Held != (v.Inconclusive != ""):
	default:
		return false, errors.New("neither a step (kind) nor a verdict (one of failure, held, inconclusive)")
	}
	r.Failure, r.Inconclusive = l.Failure, l.Inconclusive
	return true, nil
}

func (r *Run) readStep(s *Step) error {
	if !s.Kind.known() {
		return fmt.Errorf("kind is %q, which is no kind of step", s.Kind)
	}
	if s.N != len(r.Steps) {
		return fmt.Errorf("n is %d and should be %d: a step is missing, repeated or out of order", s.N, len(r.Steps))
	}
	for _, c := range s.Causes {
		if c < 0 || c >= s.N {
			return fmt.Errorf("causes has %d, which is no step before %d", c, s.N)
		}
	}
	for i := range s.Changes {
		if err := s.Changes[i].check(); err != nil {
			return fmt.Errorf("changes: %w", err)
		}
	}
	if want := r.Hash().next(s); s.Hash != want {
		return fmt.Errorf("hash is %s and should be %s: this step or one before it was changed", s.Hash, want)
	}
	r.Steps = append(r.Steps, *s)
	return nil
}

func (k Kind) known() bool {
	switch k {
	case Start, Crash, Request, Answer, Frame, Cut, Time, Fault:
		return true
	}
	return false
}

// decode decodes one line, and rejects unknown fields.
func decode(line []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			return errors.New("something follows the JSON object")
		}
		return nil
	}
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		if typ.Field == "" {
			return fmt.Errorf("a JSON %s, and not an object", typ.Value)
		}
		field := strings.TrimPrefix(strings.TrimPrefix(typ.Field, "Step."), "Object.") // Go's names of what is embedded
		return fmt.Errorf("%s is a JSON %s, and not a %s", field, typ.Value, typ.Type)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("an empty line")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the line ends in the middle of JSON: the file was cut short")
	}
	return errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "json: "), "history: "))
}

// Diverged returns the first step in which two runs of the same plan differ. If one run ends
// earlier, that is the first step that only the other one has.
func Diverged(recorded, now *Run) (step int, ok bool) {
	both := min(len(recorded.Steps), len(now.Steps))
	for i := range both {
		if recorded.Steps[i].Hash != now.Steps[i].Hash {
			return i, true
		}
	}
	return both, len(recorded.Steps) != len(now.Steps)
}
