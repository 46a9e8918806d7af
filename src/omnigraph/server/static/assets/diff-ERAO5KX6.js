import{a,b}from"./chunk-6VHK2TW5.js";import"./chunk-JKRLW4X5.js";import"./chunk-AOZKCBZ6.js";import"./chunk-TMNY6ORA.js";import"./chunk-SQE76S5B.js";export{b as Changes,a as DiffView};
