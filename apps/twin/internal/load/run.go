package load

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// The stream of random numbers that arrival times come from; requests count up from 0 and never reach it.
const arrivalStream = ^uint64(0)

// Command steers a run. Target, Phases and On belong to the commands of the same name.
type Command struct {
	Command string  `json:"command"` // phases, target, records or stop
	Phases  []Phase `json:"phases"`
	Target  string  `json:"target"`
	On      bool    `json:"on"`
}

// Run sends the load of spec, obeying commands, until it is stopped, the last phase has ended or ctx is done. It
// reports to out.
func Run(ctx context.Context, spec *Spec, commands <-chan Command, out io.Writer) error {
	now := time.Now()
	names := make([]string, len(spec.Operations))
	for i, operation := range spec.Operations {
		names[i] = operation.Name
	}
	r := &runner{
		spec: spec, sender: newSender(spec), books: newAccount(names, now), out: newOutput(out),
		arrivals: newRandom(spec.Seed, arrivalStream), plan: spec.Phases,
	}
	r.records.Store(spec.Records)
	r.out.write(ReadyLine{Kind: "ready", T: unix(now), Seed: spec.Seed, Target: spec.Target})
	r.enter(now)
	r.loop(ctx, commands)
	r.finish()
	return r.out.close()
}

type runner struct {
	spec     *Spec
	sender   *sender
	books    *account
	out      *output
	records  atomic.Bool
	arrivals *rand.Rand
	plan     []Phase   // the first is the one under way
	ends     time.Time // of the phase under way; zero: open
	due      time.Time // of the next request; zero: none
	closes   time.Time // of the open window
	number   uint64
	sending  sync.WaitGroup
}

func (r *runner) loop(ctx context.Context, commands <-chan Command) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for len(r.plan) > 0 {
		timer.Reset(time.Until(r.next()))
		select {
		case <-ctx.Done():
			return
		case command, open := <-commands:
			if !open || command.Command == "stop" {
				return
			}
			r.obey(command)
		case <-timer.C:
			r.tick(time.Now())
		}
	}
}

// next is when something is to be done.
func (r *runner) next() time.Time {
	at := r.closes
	for _, other := range []time.Time{r.ends, r.due} {
		if !other.IsZero() && other.Before(at) {
			at = other
		}
	}
	return at
}

// tick does what is due, in the order in which it became due.
func (r *runner) tick(now time.Time) {
	switch at := r.next(); {
	case at.After(now):
	case at.Equal(r.ends):
		r.plan = r.plan[1:]
		r.enter(r.ends)
	case at.Equal(r.due):
		r.dispatch()
		r.due = r.due.Add(r.gap())
	default:
		r.out.write(r.books.close(r.closes, r.plan[0].Name)...)
		r.closes = r.windowEnd(r.closes)
	}
}

// enter begins the first phase of the plan. The window under way ends here, so that every window has one phase.
func (r *runner) enter(at time.Time) {
	r.due, r.ends = time.Time{}, time.Time{}
	if len(r.plan) == 0 {
		return
	}
	phase := r.plan[0]
	lines := r.books.close(at, phase.Name)
	if !r.closes.IsZero() {
		r.out.write(lines...)
	}
	r.closes = r.windowEnd(at)
	r.out.write(PhaseLine{Kind: "phase", T: unix(at), Name: phase.Name, Rate: phase.Rate})
	if phase.DurationS != nil {
		r.ends = at.Add(seconds(*phase.DurationS))
	}
	if phase.Rate > 0 {
		r.due = at.Add(r.gap())
	}
}

// windowEnd is the next full multiple of the window's length on the clock.
func (r *runner) windowEnd(after time.Time) time.Time {
	length := seconds(r.spec.WindowS)
	return after.Truncate(length).Add(length)
}

func (r *runner) gap() time.Duration {
	mean := 1 / r.plan[0].Rate
	if r.spec.Arrival == arrivalConstant {
		return seconds(mean)
	}
	return seconds(r.arrivals.ExpFloat64() * mean)
}

func (r *runner) dispatch() {
	random := newRandom(r.spec.Seed, r.number)
	r.number++
	phase, due := r.plan[0], r.due
	weights := make([]float64, len(r.spec.Operations))
	for i := range r.spec.Operations {
		weights[i] = r.spec.weight(phase, &r.spec.Operations[i])
	}
	operation := &r.spec.Operations[pick(random, weights)]
	if !r.books.schedule(operation.Name, r.spec.MaxInFlight) {
		return
	}
	r.sending.Go(func() { r.request(operation, random, phase.Name, due) })
}

func (r *runner) request(operation *Operation, random *rand.Rand, phase string, due time.Time) {
	values, err := operation.values(random)
	if err != nil {
		r.out.write(ErrorLine{Kind: "error", Message: operation.Name + ": " + err.Error()})
	}
	// Not the run's context: a request under way when the run is stopped still counts.
	result := r.sender.send(context.Background(), operation, values)
	delay := result.Started.Sub(due)
	if delay > seconds(r.spec.LateMs/1000) {
		r.books.late(operation.Name)
	}
	latency := milliseconds(result.Ended.Sub(due))
	// The line comes before the books, so that it never follows the window that counts it.
	if r.records.Load() {
		outcome := "failed"
		if result.OK {
			outcome = "ok"
		}
		r.out.write(RequestLine{
			Kind: "request", T: unix(due), Phase: phase, Operation: operation.Name, Outcome: outcome, Reason: result.Reason,
			Status: result.Status, DelayMs: round(milliseconds(delay)), LatencyMs: round(latency), Bytes: result.Bytes,
		})
	}
	r.books.complete(operation.Name, result, latency)
}

func (r *runner) obey(command Command) {
	refuse := func(message string) { r.out.write(ErrorLine{Kind: "error", Message: message}) }
	switch command.Command {
	case "phases":
		if err := r.spec.checkPhases(command.Phases); err != nil {
			refuse(err.Error())
			return
		}
		r.plan = command.Phases
		r.enter(time.Now())
	case "target":
		if err := checkTarget(command.Target); err != nil {
			refuse(err.Error())
			return
		}
		r.sender.target.Store(&command.Target)
	case "records":
		r.records.Store(command.On)
	default:
		refuse("unknown command: " + command.Command)
	}
}

func (r *runner) finish() {
	r.sending.Wait()
	now := time.Now()
	r.out.write(r.books.close(now, "")...)
	r.out.write(r.books.summary(now))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ReadCommands turns lines into commands until the input ends, and then closes the channel if endStops is set. A line
// that is no command reaches the run as one that it refuses.
func ReadCommands(in *bufio.Reader, commands chan<- Command, endStops bool) {
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			var command Command
			if bad := strict(line, &command); bad != nil {
				command = Command{Command: bad.Error()}
			}
			commands <- command
		}
		if err != nil {
			if endStops {
				close(commands)
			}
			return
		}
	}
}
