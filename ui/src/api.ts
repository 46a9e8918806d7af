/** Requests to the server: the token, errors as the server says them, and cancellation. */

import type { Bodies, BodyAnswers, CatalogAnswer, FailureAnswer, ReadAnswers, Reads, SchemaTextAnswer } from "./requests";

const TOKEN = "omnigraph-token";

/** An answer that is not a success, with what the server said about it. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly body: FailureAnswer,
  ) {
    super(body.error);
  }
}

/** The server could not be reached at all. */
export class Offline extends Error {
  constructor() {
    super("the server cannot be reached");
  }
}

type Listener = () => void;
const signedOut = new Set<Listener>();

export function token(): string | null {
  return sessionStorage.getItem(TOKEN);
}

export function signIn(text: string): void {
  sessionStorage.setItem(TOKEN, text);
}

export function signOut(): void {
  sessionStorage.removeItem(TOKEN);
  for (const listener of signedOut) listener();
}

/** Call back when the token is no longer valid, or was given up. */
export function onSignOut(listener: Listener): () => void {
  signedOut.add(listener);
  return () => signedOut.delete(listener);
}

let isAway = false;
const watchers = new Set<(isAway: boolean) => void>();

/** Whether the server could not be reached by the last request; the frame of the page says so. */
export function watchServer(watcher: (isAway: boolean) => void): () => void {
  watchers.add(watcher);
  watcher(isAway);
  return () => watchers.delete(watcher);
}

function tellServer(away: boolean): void {
  if (away === isAway) return;
  isAway = away;
  for (const watcher of watchers) watcher(away);
}

/** Load a part of the page, after 1, 2, 4 ... 30 seconds again if the server is away. */
export async function untilLoaded<T>(load: () => Promise<T>): Promise<T> {
  for (let wait = 1000; ; wait = Math.min(wait * 2, 30_000)) {
    try {
      const loaded = await load();
      tellServer(false);
      return loaded;
    } catch {
      tellServer(true);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

/** Build the path of a request; empty values are left out, lists are repeated. */
export function path(base: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    if (typeof value === "object") for (const each of value) search.append(name, each);
    else search.append(name, String(value));
  }
  const text = search.toString();
  return text ? `${base}?${text}` : base;
}

/** The prefix of the routes of a graph. */
export function graphPath(graph: string, rest = ""): string {
  return `/graphs/${encodeURIComponent(graph)}${rest}`;
}

/** The address of a read. What it takes is checked against the description of the routes. */
export function routePath<R extends keyof Reads>(graph: string, route: R, query: Reads[R]): string {
  return path(graphPath(graph, route === "/" ? "" : route), query as Query);
}

/** A branch in a path: its slashes stay. */
export function branchPath(branch: string): string {
  return branch.split("/").map(encodeURIComponent).join("/");
}

export interface Options {
  readonly signal?: AbortSignal;
  readonly method?: string;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

/** Send a request and return the response, or raise what the server said. */
export async function send(url: string, { signal, method, body, headers }: Options = {}): Promise<Response> {
  const own: Record<string, string> = { Accept: "application/json", ...headers };
  const known = token();
  if (known) own["Authorization"] = `Bearer ${known}`;
  const isText = typeof body === "string" || body instanceof Blob;
  if (body !== undefined && !isText) own["Content-Type"] = "application/json";
  const request: RequestInit = { method: method ?? (body === undefined ? "GET" : "POST"), headers: own, cache: "no-cache" };
  if (signal) request.signal = signal;
  if (body !== undefined) request.body = isText ? (body as BodyInit) : JSON.stringify(body);
  let response: Response;
  try {
    response = await fetch(url, request);
  } catch (error) {
    if (signal?.aborted) throw error;
    tellServer(true);
    throw new Offline();
  }
  tellServer(false);
  if (response.ok) return response;
  const failed = new ApiError(response.status, await errorBody(response));
  if (response.status === 401) signOut();
  throw failed;
}

export async function get<T>(url: string, signal?: AbortSignal): Promise<T> {
  return (await (await send(url, signal ? { signal } : {})).json()) as T;
}

export async function post<T>(url: string, body: unknown, options: Options = {}): Promise<T> {
  return (await (await send(url, { ...options, body, method: options.method ?? "POST" })).json()) as T;
}

export async function remove<T>(url: string, options: Options = {}): Promise<T> {
  return (await (await send(url, { ...options, method: "DELETE" })).json()) as T;
}

/** Read a route of a graph. What it takes and answers is that of the description of the routes. */
export async function read<R extends keyof Reads>(graph: string, route: R, query: Reads[R], signal?: AbortSignal): Promise<ReadAnswers[R]> {
  return get<ReadAnswers[R]>(routePath(graph, route, query), signal);
}

/** The types of a schema. */
export async function readCatalog(graph: string, place: { readonly branch?: string | null; readonly at?: string | null }, signal?: AbortSignal): Promise<CatalogAnswer> {
  return get<CatalogAnswer>(routePath(graph, "/schema", { view: "catalog", branch: place.branch, at: place.at }), signal);
}

/** A schema as it was written. */
export async function readSchemaText(graph: string, place: { readonly branch: string; readonly at: string | null }, signal?: AbortSignal): Promise<SchemaTextAnswer> {
  return get<SchemaTextAnswer>(routePath(graph, "/schema", place), signal);
}

/** Send a body to a route of a graph; checked likewise. */
export async function call<R extends keyof Bodies>(graph: string, route: R, body: Bodies[R], options: Options = {}): Promise<BodyAnswers[R]> {
  return post<BodyAnswers[R]>(graphPath(graph, route), body, options);
}

async function errorBody(response: Response): Promise<FailureAnswer> {
  try {
    return (await response.json()) as FailureAnswer;
  } catch {
    return { error: `the server answered ${response.status}`, code: null, type: "unknown", request_id: "" };
  }
}
