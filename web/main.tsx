import { render } from 'preact';
import { App } from './frame/app.tsx';
import { followDisplay } from './frame/settings.ts';

followDisplay(document.documentElement);
const root = document.querySelector('#root');
if (root !== null) render(<App />, root);
