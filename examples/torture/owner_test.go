//go:build unix

package torture

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// points are where an owner may meet its fault; those that are met less easily come twice.
func (s setup) points() []point {
	points := []point{atAnyTime, atAnyTime, inAction, inRequest, inReply, inCodec}
	if s == withHook {
		points = append(points, beforeAsk, afterAsk, beforeAsk, afterAsk)
	}
	return points
}

func asks(at point) bool { return at == beforeAsk || at == afterAsk }

// owner is a call in a process of its own, and its fault.
type owner struct {
	*round
	process config
	fate    fate
	after   time.Duration // the fault comes so long after the begin of the call, if there is no point to halt at
	start   time.Duration
	pause   time.Duration // how long it is stopped
	late    time.Duration // when what it sent arrives, after the fault
	lost    bool          // or never
	gate    *gate         // where that waits; nil if it halts elsewhere
}

func (r *round) newOwner(i int) *owner {
	name := fmt.Sprintf("owner %d", i)
	d := r.dice(name)
	points := r.Setup.points()
	if i == 0 {
		points = slices.DeleteFunc(points, asks) // somebody must have been there before
	}
	o := &owner{
		round: r, process: r.config, fate: []fate{killed, stopped}[d.oneOf(2)],
		after: d.upTo(2), start: d.upTo(4), pause: r.Lease + d.upTo(3), late: d.upTo(4), lost: d.oneOf(4) == 0,
	}
	o.process.Name, o.process.Halt = name, points[d.oneOf(len(points))]
	if o.process.Halt == inRequest || o.process.Halt == inReply {
		o.gate = newGate()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.gates[o.process.Name+string(o.process.Halt)] = o.gate
	}
	return o
}

// live starts the process and lets its fault happen. It tells when that is over, or that it never
// came to it, and returns when the process has ended.
func (o *owner) live(over func()) error {
	over = sync.OnceFunc(over)
	defer over()
	if o.gate != nil {
		defer o.gate.decide(false)
	}
	p, err := startChild(o.process)
	if err != nil {
		return err
	}
	defer p.Kill()
	hit, err := o.reach(p)
	if err != nil {
		return err
	}
	if !hit {
		over()
		return o.end(p)
	}
	if err := o.strike(p); err != nil {
		return err
	}
	over()
	var sent sync.WaitGroup
	if o.gate != nil {
		sent.Go(func() {
			<-time.After(o.late)
			o.gate.decide(!o.lost)
		})
	}
	defer sent.Wait()
	if o.fate == killed {
		return nil
	}
	<-time.After(o.pause)
	o.say("%s is resumed", o.process.Name)
	p.resume()
	return o.end(p)
}

// strike is the fault.
func (o *owner) strike(p *child) error {
	where := o.process.Halt.String()
	o.say("%s is %s at %s", o.process.Name, o.fate, where)
	o.sum.Add(string(o.fate), 1)
	o.sum.Add(faultAt(o.fate, o.process.Halt), 1)
	if o.fate == killed {
		p.Kill()
		return nil
	}
	if err := p.stop(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// reach waits until the fault is due. It returns false if the call ends without.
func (o *owner) reach(p *child) (bool, error) {
	if hit, err := p.await(p.calling); !hit || err != nil {
		return hit, err
	}
	o.say("%s calls", o.process.Name)
	reached := p.halts
	switch {
	case o.gate != nil:
		reached = o.gate.reached
	case o.process.Halt == atAnyTime:
		due := make(chan struct{})
		time.AfterFunc(o.after, func() { close(due) })
		reached = due
	}
	return p.await(reached)
}

// end waits for what the process has got.
func (o *owner) end(p *child) error {
	got, err := p.report()
	if err == nil {
		o.took(o.process.Name, got)
	}
	return err
}
