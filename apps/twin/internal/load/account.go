package load

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// Latency sums up response times in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// Totals counts one operation's requests over a stretch of time.
type Totals struct {
	Scheduled int            `json:"scheduled"`
	Sent      int            `json:"sent"`
	Missed    int            `json:"missed"`
	Completed int            `json:"completed"`
	OK        int            `json:"ok"`
	Failed    int            `json:"failed"`
	Reasons   map[string]int `json:"reasons"`
	Latency   *Latency       `json:"latency_ms"` // null when nothing completed

	times histogram
}

func newTotals() *Totals { return &Totals{Reasons: map[string]int{}, times: histogram{}} }

func (t *Totals) complete(result Result, latencyMs float64) {
	t.Completed++
	if result.OK {
		t.OK++
	} else {
		t.Failed++
		t.Reasons[result.Reason]++
	}
	t.times.add(latencyMs)
}

// histogram counts times in buckets that grow by two percent, so that a long run needs no more memory than a short one.
type histogram map[int]int

const (
	bucketFloorMs = 0.01
	bucketGrowth  = 1.02
)

func (h histogram) add(ms float64) {
	h[int(math.Ceil(math.Log(max(ms, bucketFloorMs)/bucketFloorMs)/math.Log(bucketGrowth)))]++
}

func (h histogram) latency() *Latency {
	count, sum, top := 0, 0.0, 0.0
	for bucket, n := range h {
		count += n
		sum += float64(n) * bucketMs(bucket)
		top = max(top, bucketMs(bucket))
	}
	if count == 0 {
		return nil
	}
	order := slices.Sorted(maps.Keys(h))
	at := func(share float64) float64 {
		left := int(math.Ceil(share * float64(count)))
		for _, bucket := range order {
			if left -= h[bucket]; left <= 0 {
				return bucketMs(bucket)
			}
		}
		return top
	}
	return &Latency{P50: at(.5), P90: at(.9), P95: at(.95), P99: at(.99), Max: top, Mean: round(sum / float64(count))}
}

func bucketMs(bucket int) float64 {
	return round(bucketFloorMs * math.Pow(bucketGrowth, float64(bucket)))
}

func round(ms float64) float64 { return math.Round(ms*1000) / 1000 }

// account keeps the books: the open window and the whole run, by operation.
type account struct {
	mu       sync.Mutex
	names    []string
	began    time.Time
	opened   time.Time
	phase    string
	window   map[string]*Totals
	run      map[string]*Totals
	inFlight map[string]int
}

func newAccount(names []string, now time.Time) *account {
	books := &account{names: names, began: now, opened: now, run: map[string]*Totals{}, inFlight: map[string]int{}}
	for _, name := range names {
		books.run[name] = newTotals()
	}
	books.reset(now)
	return books
}

func (a *account) reset(now time.Time) {
	a.opened = now
	a.window = map[string]*Totals{}
	for _, name := range a.names {
		a.window[name] = newTotals()
	}
}

// both applies a change to the open window and to the run.
func (a *account) both(operation string, change func(*Totals)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a.window[operation])
	change(a.run[operation])
}

// schedule records a request that is due; it tells whether it may be sent, or too many are under way.
func (a *account) schedule(operation string, limit int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	underWay := 0
	for _, n := range a.inFlight {
		underWay += n
	}
	for _, totals := range []*Totals{a.window[operation], a.run[operation]} {
		totals.Scheduled++
		if underWay >= limit {
			totals.Missed++
		} else {
			totals.Sent++
		}
	}
	if underWay >= limit {
		return false
	}
	a.inFlight[operation]++
	return true
}

func (a *account) late(operation string) { a.both(operation, func(t *Totals) { t.Missed++ }) }

func (a *account) complete(operation string, result Result, latencyMs float64) {
	a.both(operation, func(t *Totals) { t.complete(result, latencyMs) })
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inFlight[operation]--
}

// close ends the open window, opens the next one under the given phase, and gives the lines of the one that ended.
func (a *account) close(now time.Time, next string) []any {
	a.mu.Lock()
	defer a.mu.Unlock()
	length := now.Sub(a.opened).Seconds()
	var lines []any
	for _, name := range a.names {
		totals := a.window[name]
		totals.Latency = totals.times.latency()
		lines = append(lines, WindowLine{
			Kind: "window", T: unix(a.opened), Seconds: round(length), Phase: a.phase, Operation: name, Totals: totals, InFlight: a.inFlight[name],
		})
	}
	a.phase = next
	a.reset(now)
	return lines
}

func (a *account) summary(now time.Time) SummaryLine {
	a.mu.Lock()
	defer a.mu.Unlock()
	line := SummaryLine{Kind: "summary", T: unix(now), Seconds: round(now.Sub(a.began).Seconds()), Operations: a.run}
	for _, totals := range a.run {
		totals.Latency = totals.times.latency()
		line.Scheduled += totals.Scheduled
		line.Sent += totals.Sent
		line.Missed += totals.Missed
	}
	if line.Scheduled > 0 {
		line.MissedShare = float64(line.Missed) / float64(line.Scheduled)
	}
	return line
}
