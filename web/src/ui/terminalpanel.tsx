// A service's terminal with what is around it: who drives, find, copy, replay, how it ended.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { duration } from "../core/time.ts";
import { act, may, socket } from "../state/connection.ts";
import { isDark } from "../state/prefs.ts";
import { fail } from "../state/toasts.ts";
import type { TerminalState, TerminalView } from "../views/terminal.ts";
import "../views/loglist.css";
import "../views/terminal.css";
import { Button } from "./button.tsx";
import { confirm } from "./dialog.tsx";
import { openMenu } from "./menu.tsx";

const STARTING: TerminalState = {
  stage: "connecting", isMine: false, isHeld: false, columns: 80, rows: 24,
  renderer: "dom", ending: "", isReplaying: false,
};
const MOST_RECORDED = 8 * 1024 * 1024;

declare global {
  interface HTMLElement {
    /** For tests: what a terminal shows is no text of the document. */
    holdfastText?: () => string;
    holdfastChosen?: () => string;
  }
}

export function TerminalPanel({ service }: { service: string }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<TerminalView | null>(null);
  const [state, setState] = useState(STARTING);
  const [isFinding, setFinding] = useState(false);
  const [isRecording, setRecording] = useState(false);
  const [isSpoken, setSpoken] = useState(false);
  const mayType = may("operate");

  useEffect(() => {
    let isOver = false;
    void import("../views/terminal.ts").then(({ TerminalView: View }) => {
      if (isOver || !box.current) return;
      const made = new View({
        service,
        socket,
        mayType,
        ask: (title, detail, verb) =>
          confirm({ title, detail: <pre class="termask">{detail}</pre>, verb, danger: "some" }),
        onState: setState,
        onFind: () => setFinding(true),
        onFault: fail,
      });
      view.current = made;
      made.mount(box.current);
      box.current.holdfastText = () => made.text();
      box.current.holdfastChosen = () => made.terminal.getSelection();
      made.focus();
    }).catch(fail);
    return () => {
      isOver = true;
      view.current?.dispose();
      view.current = null;
    };
  }, [service]);
  useEffect(() => view.current?.retheme(), [isDark.value]);
  useEffect(() => view.current?.setScreenReader(isSpoken), [isSpoken]);

  return (
    <div class="panel fill" data-term={state.isReplaying ? "replaying" : state.stage} data-mine={state.isMine}>
      <div class="panel-head">
        <Driver state={state} mayType={mayType} view={view.current} />
        <span class="grow" />
        <Button icon="search" onClick={() => setFinding(!isFinding)}>
          Find
        </Button>
        <Button icon="clock" onClick={() => setRecording(true)}>
          Replay
        </Button>
        <Button
          icon="more"
          label="More about this terminal"
          hasMenu
          onClick={(event) =>
            openMenu(event.currentTarget as HTMLElement, "More about this terminal", [
              { title: "Screen reader mode", checked: isSpoken, run: () => setSpoken(!isSpoken) },
              {
                title: "Leave the keyboard to others",
                why: state.isMine ? undefined : "you do not have it",
                run: () => void view.current?.release(),
              },
            ])
          }
        />
      </div>
      {isFinding && (
        <FindBar
          onFind={(text, isBack) =>
            view.current?.find(text, isBack) ?? false
          }
          onChange={() => view.current?.terminal.clearSelection()}
          onClose={() => {
            setFinding(false);
            view.current?.terminal.clearSelection();
            view.current?.focus();
          }}
        />
      )}
      {(state.stage === "ended" || state.stage === "refused") && (
        <div class="banner" data-severity={state.stage === "refused" ? "bad" : "warn"} role="status">
          <b>{state.stage === "refused" ? "No terminal here" : "Ended"}</b>
          <span class="grow">{state.ending}</span>
          {state.stage === "ended" && mayType && (
            <Button onClick={() => act("restart", { services: [service] }).catch(fail)}>Restart</Button>
          )}
        </div>
      )}
      <div class="termbox fill" ref={box} />
      <div class="panel-foot">
        <span data-size={`${state.columns}x${state.rows}`}>
          {state.columns} × {state.rows} · {state.renderer}
        </span>
        <span>recorded · goes on when this tab is closed</span>
        <span class="grow" />
        <span class="only-wide">
          <kbd>Ctrl Shift F</kbd> find <kbd>Ctrl Shift C</kbd> copy <kbd>F6</kbd> leave
        </span>
      </div>
      {isRecording && view.current && (
        <Recording service={service} view={view.current} onClose={() => setRecording(false)} />
      )}
    </div>
  );
}

function Driver(props: { state: TerminalState; mayType: boolean; view: TerminalView | null }): JSX.Element {
  const { state, mayType, view } = props;
  if (!mayType) return <span class="chip">Read only: your role may look</span>;
  if (state.stage !== "live") return <span class="chip">{state.stage}</span>;
  if (state.isMine) return <span class="chip is-ok">You type here</span>;
  return (
    <>
      <span class="chip is-warn">{state.isHeld ? "Somebody else types here; you watch" : "Nobody types here"}</span>
      <Button onClick={() => void view?.take(true).then(() => view.focus())}>Take the keyboard</Button>
    </>
  );
}

function FindBar(props: {
  onFind: (text: string, isBack: boolean) => boolean;
  onChange: () => void;
  onClose: () => void;
}): JSX.Element {
  const [text, setText] = useState("");
  const [isFound, setFound] = useState(true);
  const find = (wanted: string, isBack: boolean) => setFound(wanted === "" || props.onFind(wanted, isBack));
  return (
    <div class="panel-head" role="search">
      <input
        class="input grow mono"
        type="search"
        aria-label="Find in the terminal"
        autofocus
        ref={(field) => field?.focus()}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          props.onChange();
          find(event.currentTarget.value, true);
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") find(text, !event.shiftKey);
          else if (event.key === "Escape") props.onClose();
          else return;
          event.preventDefault();
        }}
      />
      <Button icon="up" label="Previous" onClick={() => find(text, true)} />
      <Button icon="down" label="Next" onClick={() => find(text, false)} />
      {!isFound && <span class="is-warn" role="status">Not found</span>}
      <Button icon="close" label="Close" onClick={props.onClose} />
    </div>
  );
}

interface Piece {
  data: Uint8Array;
  time: number;
}

/** What was recorded, at any moment of it; a slider is its time. */
function Recording(props: { service: string; view: TerminalView; onClose: () => void }): JSX.Element {
  const { service, view, onClose } = props;
  const box = useRef<HTMLDivElement>(null);
  const screen = useRef<{ show: (count: number) => void; dispose: () => void } | null>(null);
  const [pieces, setPieces] = useState<Piece[] | null>(null);
  const [at, setAt] = useState(0);
  const [isPlaying, setPlaying] = useState(false);

  useEffect(() => {
    const found: Piece[] = [];
    let size = 0;
    const add = (data: Uint8Array, time: number) => {
      found.push({ data, time: time || (found.at(-1)?.time ?? 0) });
      size += data.length;
      while (size > MOST_RECORDED) size -= found.shift()!.data.length;
    };
    view.past({ run: -1, until: {} }, add).then(() => {
      setPieces(found);
      setAt(found.length);
    }, fail);
  }, [service]);
  useEffect(() => {
    if (!pieces || !box.current) return;
    let isOver = false;
    void import("@xterm/xterm").then(({ Terminal }) => {
      if (isOver || !box.current) return;
      const { cols, rows } = view.terminal;
      const theme = view.terminal.options.theme ?? {};
      const made = new Terminal({ cols, rows, theme, disableStdin: true, logLevel: "off" });
      let shown = 0;
      made.open(box.current);
      screen.current = {
        show: (count) => {
          if (count < shown) {
            made.reset();
            shown = 0;
          }
          for (const piece of pieces.slice(shown, count)) made.write(piece.data);
          shown = count;
        },
        dispose: () => made.dispose(),
      };
      screen.current.show(pieces.length);
    });
    return () => {
      isOver = true;
      screen.current?.dispose();
    };
  }, [pieces]);
  useEffect(() => screen.current?.show(at), [at]);
  useEffect(() => {
    if (!isPlaying || !pieces) return;
    if (at >= pieces.length) {
      setPlaying(false);
      return;
    }
    // Long pauses of the program are none of the replay's.
    const wait = at > 0 ? Math.min(1000, pieces[at]!.time - pieces[at - 1]!.time) : 0;
    const timer = setTimeout(() => setAt(at + 1), Math.max(0, wait));
    return () => clearTimeout(timer);
  }, [isPlaying, at, pieces]);

  const begin = pieces?.[0]?.time ?? 0;
  const now = pieces?.[Math.max(0, at - 1)]?.time ?? begin;
  const end = pieces?.at(-1)?.time ?? begin;
  return (
    <section class="termreplay" aria-label="Replay">
      <div class="panel-head">
        <Button
          icon={isPlaying ? "pause" : "play"}
          onClick={() => {
            if (!isPlaying && at >= (pieces?.length ?? 0)) setAt(0);
            setPlaying(!isPlaying);
          }}
        >
          {isPlaying ? "Pause" : "Play"}
        </Button>
        <input
          class="grow"
          type="range"
          aria-label="Moment of the recording"
          aria-valuetext={duration((now - begin) / 1000)}
          min={0}
          max={pieces?.length ?? 0}
          value={at}
          onInput={(event) => {
            setPlaying(false);
            setAt(Number(event.currentTarget.value));
          }}
        />
        <span class="mono" data-replay={at}>
          {pieces ? `${duration((now - begin) / 1000)} of ${duration((end - begin) / 1000)}` : "loading…"}
        </span>
        <Button icon="close" label="Close the replay" onClick={onClose} />
      </div>
      <div class="termbox fill" ref={box} />
    </section>
  );
}
